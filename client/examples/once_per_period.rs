//! Example of work that is done at most once in each period, whoever asks and whether the process survives it.
//!
//! ```text
//! cargo run --example once_per_period -- http://127.0.0.1:7420
//! ```

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::{error::Error, time::Duration};

use leasehold_client::{AcquireError, Client};

/// At most the coordinator's `max-ttl`: 1 h unless it is configured otherwise.
const PERIOD: Duration = Duration::from_secs(2);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let endpoint = std::env::args()
        .nth(1)
        .ok_or("usage: once_per_period ENDPOINT")?;
    let client = Client::connect(endpoint).await?;

    assert!(remind(&client, "customer/7", true).await?);
    // Not again in this period, but another one.
    assert!(!remind(&client, "customer/7", true).await?);
    assert!(remind(&client, "customer/8", true).await?);

    // A failure gives the period back.
    assert!(remind(&client, "customer/9", false).await.is_err());
    assert!(remind(&client, "customer/9", true).await?);

    // In the next period.
    tokio::time::sleep(PERIOD).await;
    while !remind(&client, "customer/7", true).await? {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    println!("reminded again in the next period");

    client.close().await;
    Ok(())
}

/// Sends a reminder unless somebody has sent one in this period. Returns whether it did.
async fn remind(client: &Client, customer: &str, works: bool) -> Result<bool, Box<dyn Error>> {
    let request = client.detached_lock(format!("reminded/{customer}"));
    let lock = match request.ttl(PERIOD).value("host 7").acquire().await {
        Ok(lock) => lock,
        Err(AcquireError::Busy { .. }) => {
            println!("{customer} was reminded in this period");
            return Ok(false);
        }
        Err(error) => return Err(error.into()),
    };
    if !works {
        // Nothing was sent: somebody may try again at once.
        lock.release().await?;
        return Err("no reminder could be sent".into());
    }
    println!("{customer} is reminded");
    // Never released: the name stays taken for the rest of the period, also if this process ends.
    Ok(true)
}
