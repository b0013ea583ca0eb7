//! Example of a lock: acquires it, works while it is held, and releases it.
//!
//! ```text
//! cargo run --example lock -- http://127.0.0.1:7420
//! ```

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::{error::Error, time::Duration};

use leasehold_client::Client;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let endpoint = std::env::args().nth(1).ok_or("usage: lock ENDPOINT")?;
    let client = Client::builder()
        .client_name("lock example")
        .connect(endpoint)
        .await?;

    let guard = client
        .lock("orders/42")
        .wait(Duration::from_secs(10))
        .await?;
    println!("holding orders/42 with token {}", guard.fencing_token());
    tokio::select! {
        // Nobody else can hold the lock before this completes.
        reason = guard.lost() => return Err(format!("lost the lock: {reason}").into()),
        () = work() => {}
    }
    guard.release().await?;
    println!("released");

    client.close().await;
    Ok(())
}

async fn work() {
    tokio::time::sleep(Duration::from_millis(10)).await;
}
