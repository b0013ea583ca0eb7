//! Example of work that can fail: sells a stock of two apples, one after the other, and stops with the program's own error.
//!
//! ```text
//! cargo run --example try_with_lock -- http://127.0.0.1:7420
//! ```

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::{
    error::Error,
    sync::atomic::{AtomicU32, Ordering},
};

use leasehold_client::{Client, FencingToken, WithLockError};

/// Reasons for which a sale fails: one enum for the lock and for the work.
#[derive(thiserror::Error, Debug)]
enum SaleError {
    #[error(transparent)]
    Lock(#[from] WithLockError),
    #[error("sold out")]
    SoldOut,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let endpoint = std::env::args()
        .nth(1)
        .ok_or("usage: try_with_lock ENDPOINT")?;
    let client = Client::connect(endpoint).await?;
    let stock = AtomicU32::new(2);

    loop {
        let sale = client
            .try_with_lock("stock/apples", |lock| sell(&stock, lock.fencing_token()))
            .await;
        match sale {
            Ok(left) => println!("sold an apple, {left} left"),
            Err(SaleError::SoldOut) => break println!("sold out"),
            // The work may have been dropped half-way: it must be safe to run again.
            Err(SaleError::Lock(error)) if error.is_retryable() => println!("{error}"),
            Err(error) => return Err(error.into()),
        }
    }

    client.close().await;
    Ok(())
}

/// Sells one apple. A real stock would refuse a token smaller than the largest that it has seen.
async fn sell(stock: &AtomicU32, _token: FencingToken) -> Result<u32, SaleError> {
    let left = stock.load(Ordering::Relaxed);
    let left = left.checked_sub(1).ok_or(SaleError::SoldOut)?;
    stock.store(left, Ordering::Relaxed);
    Ok(left)
}
