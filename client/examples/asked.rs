//! Example of a worker that does its work in pieces, and lets go between two of them when an operator asks for its lock.
//!
//! ```text
//! cargo run --example asked -- http://127.0.0.1:7420
//! ```

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::{error::Error, future::ready, pin::pin, time::Duration};

use leasehold_client::{Client, LockGuard, ReleaseRequest};
use tokio::time::sleep;

const NAME: &str = "reports/nightly";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let endpoint = std::env::args().nth(1).ok_or("usage: asked ENDPOINT")?;
    let client = Client::connect(endpoint).await?;
    let guard = client.lock(NAME).await?;

    // Would be `leasehold release reports/nightly --ask`, on an operator's machine.
    let request = client.admin().request_release(NAME);
    let request = request
        .reason("the node goes away")
        .within(Duration::from_secs(30));
    let operator = tokio::spawn(async move {
        sleep(Duration::from_millis(200)).await;
        request.send().await
    });

    match work(&guard).await {
        Some(request) => {
            println!(
                "asked to let go: {}, within {:?}",
                request.reason(),
                request.time_left()
            );
            guard.release().await?;
        }
        None => println!("the lock was lost"),
    }
    println!("the operator asked {} holder", operator.await??);

    client.close().await;
    Ok(())
}

/// Works piece by piece. Returns the request that interrupts it, or none if the lock is lost.
async fn work(guard: &LockGuard) -> Option<ReleaseRequest> {
    let mut requested = pin!(guard.release_requested());
    loop {
        // Between two pieces, so that none is left half done.
        tokio::select! {
            biased;
            request = &mut requested => return request,
            () = ready(()) => {}
        }
        piece().await;
    }
}

async fn piece() {
    sleep(Duration::from_millis(50)).await;
}
