//! Example of a semaphore: of six downloads, at most three run at the same time.
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

    client.close().await;
    Ok(())
}
