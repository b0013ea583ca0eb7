//! Example of a semaphore: of six downloads, at most three run at the same time. Then the limit is raised while it is in use,
//! and a holder gives part of its permits back.
//!
//! ```text
//! cargo run --example semaphore -- http://127.0.0.1:7420
//! ```

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::{error::Error, time::Duration};

use leasehold_client::Client;
use tokio::task::JoinSet;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let endpoint = std::env::args().nth(1).ok_or("usage: semaphore ENDPOINT")?;
    let client = Client::connect(endpoint).await?;
    let downloads = client.semaphore("downloads", 3);

    let mut tasks = JoinSet::new();
    for file in 1..=6 {
        let request = downloads.permits(1);
        tasks.spawn(async move {
            let permit = request.await?;
            tokio::time::sleep(Duration::from_millis(10)).await;
            println!("downloaded file {file} with {} permit", permit.permits());
            permit.release().await?;
            Ok::<_, Box<dyn Error + Send + Sync>>(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }

    // The next version of the program allows five. The former one still runs, and gets along with it.
    let more = client.semaphore("downloads", 5).limit_revision(1);
    let one = downloads.permits(1).await?;
    let four = more.permits(4).await?;
    // Three of its four files are there.
    four.keep(1).await?;
    let two = downloads.permits(2).await?;
    println!(
        "{} + {} + {} of 5",
        one.permits(),
        four.permits(),
        two.permits()
    );
    for permit in [one, four, two] {
        permit.release().await?;
    }

    client.close().await;
    Ok(())
}
