//! Example of a watch: prints the locks that are held, then what happens to them, until one was released.
//!
//! ```text
//! cargo run --example watch -- http://127.0.0.1:7420
//! ```

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;

use leasehold_client::{Client, LockEventKind, LockWatchEvent};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let endpoint = std::env::args().nth(1).ok_or("usage: watch ENDPOINT")?;
    let client = Client::connect(endpoint).await?;
    let mut guard = Some(client.lock("orders/42").await?);

    let mut watcher = client.admin().watch_locks("orders/");
    while let Some(item) = watcher.next().await {
        match item? {
            LockWatchEvent::Lock(lock) => println!("{}: {} holders", lock.name, lock.holder_count),
            LockWatchEvent::Ready => {
                println!("the snapshot is complete");
                if let Some(guard) = guard.take() {
                    guard.release().await?;
                }
            }
            LockWatchEvent::Event(event) => {
                println!("{}: {:?}", event.name, event.kind);
                if event.kind == LockEventKind::Released {
                    break;
                }
            }
            LockWatchEvent::Gap(reason) => println!("missed events: {reason}"),
            _ => {}
        }
    }

    client.close().await;
    Ok(())
}
