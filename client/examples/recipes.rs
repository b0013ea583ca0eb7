//! Recipes of `docs/recipes.md`, one function each.
//!
//! ```text
//! cargo run --example recipes -- http://127.0.0.1:7420
//! cargo run --example recipes -- http://127.0.0.1:7420 serve   # until SIGTERM
//! ```

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::{error::Error, time::Duration};

use leasehold_client::{AcquireError, Client, WithLockError};
use tokio::signal::unix::{SignalKind, signal};

type Outcome = Result<(), Box<dyn Error>>;

#[tokio::main]
async fn main() -> Outcome {
    let mut arguments = std::env::args().skip(1);
    let endpoint = arguments.next().ok_or("usage: recipes ENDPOINT [serve]")?;
    let client = Client::connect(endpoint).await?;
    if arguments.next().is_some() {
        return serve(client).await;
    }
    lock(&client).await?;
    try_lock(&client).await?;
    wait(&client).await?;
    shared(&client).await?;
    semaphore(&client).await?;
    several(&client).await?;
    election(&client).await?;
    once_per_period(&client, "7").await?;
    fencing(&client).await?;
    client.close().await;
    println!("all recipes work");
    Ok(())
}

// recipe: lock
async fn lock(client: &Client) -> Outcome {
    // If the lock is lost, the work is dropped where it awaits.
    client
        .lock("orders/42")
        .with(async |_| work().await)
        .await?;
    Ok(())
}
// end recipe

// recipe: try
async fn try_lock(client: &Client) -> Outcome {
    match client.lock("orders/42").try_acquire().await? {
        Some(guard) => {
            work().await;
            guard.release().await?;
        }
        None => println!("somebody else is at it"),
    }
    Ok(())
}
// end recipe

// recipe: wait
async fn wait(client: &Client) -> Outcome {
    let request = client.lock("orders/42").wait(Duration::from_secs(5));
    match request.with(async |_| work().await).await {
        Err(WithLockError::Acquire(AcquireError::TimedOut { .. })) => println!("not in time"),
        done => done?,
    }
    Ok(())
}
// end recipe

// recipe: shared
async fn shared(client: &Client) -> Outcome {
    // Beside others that share it, and never beside one that has it alone.
    client
        .lock("catalogue")
        .shared()
        .with(async |_| work().await)
        .await?;
    Ok(())
}
// end recipe

// recipe: semaphore
async fn semaphore(client: &Client) -> Outcome {
    let uploads = client.semaphore("uploads", 10);
    uploads.permits(2).with(async |_| work().await).await?;
    Ok(())
}
// end recipe

// recipe: several
async fn several(client: &Client) -> Outcome {
    // Together or not at all, and in an order in which nobody deadlocks.
    let accounts = client.lock_all(["account/7", "account/9"]);
    accounts.with(async |_| work().await).await?;
    Ok(())
}
// end recipe

// recipe: election
async fn election(client: &Client) -> Outcome {
    // Campaigns again after a loss, until the work is done.
    let election = client.election("scheduler");
    election
        .run_while_leader("10.0.0.7:8080", async |_| work().await)
        .await?;
    Ok(())
}
// end recipe

// recipe: once-per-period
async fn once_per_period(client: &Client, customer: &str) -> Outcome {
    let period = client
        .detached_lock(format!("reminded/{customer}"))
        .ttl(Duration::from_secs(3600));
    match period.acquire().await {
        Ok(lock) => {
            if let Err(error) = remind(customer).await {
                // Nothing was sent: somebody may try again in this period.
                lock.release().await?;
                return Err(error);
            }
            // Not released: the name stays taken for the rest of the period, also if this process ends.
            Ok(())
        }
        Err(AcquireError::Busy { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
// end recipe

// recipe: fencing
async fn fencing(client: &Client) -> Outcome {
    client
        .lock("report")
        .with(async |lock| {
            // What the lock protects keeps the largest token that it has seen, and refuses smaller ones.
            write("report", lock.fencing_token().get()).await;
        })
        .await?;
    Ok(())
}
// end recipe

// recipe: stop
async fn serve(client: Client) -> Outcome {
    let mut terminated = signal(SignalKind::terminate())?;
    tokio::select! {
        done = client.lock("queue").with(async |_| consume().await) => done?,
        _ = terminated.recv() => {}
    }
    // Work under locks ends first, then its locks are handed on.
    client.close().await;
    Ok(())
}
// end recipe

async fn work() {}

async fn consume() {
    std::future::pending::<()>().await;
}

async fn remind(_customer: &str) -> Outcome {
    Ok(())
}

async fn write(_what: &str, _token: i64) {}
