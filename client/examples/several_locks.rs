//! Example of several locks with a mode each: transfers read the configuration and write two accounts, in any order and
//! without deadlocks.
//!
//! ```text
//! cargo run --example several_locks -- http://127.0.0.1:7420
//! ```

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;

use leasehold_client::{Client, LockSpec};
use tokio::task::JoinSet;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let endpoint = std::env::args()
        .nth(1)
        .ok_or("usage: several_locks ENDPOINT")?;
    let client = Client::connect(endpoint).await?;

    let mut transfers = JoinSet::new();
    for (from, to) in [("account/7", "account/9"), ("account/9", "account/7")] {
        let request = client.lock_all([
            LockSpec::shared("configuration"),
            LockSpec::exclusive(from),
            LockSpec::exclusive(to),
        ]);
        transfers.spawn(async move {
            let guards = request.await?;
            println!("transferred from {from} to {to}");
            guards.release().await?;
            Ok::<_, Box<dyn Error + Send + Sync>>(())
        });
    }
    let mut done = 0;
    while let Some(transfer) = transfers.join_next().await {
        transfer??;
        done += 1;
    }
    println!("{done} transfers done");

    client.close().await;
    Ok(())
}
