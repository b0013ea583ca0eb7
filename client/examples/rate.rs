//! Example of a rate: of all workers, at most three work at a time, and at most five begin in any two seconds.
//!
//! ```text
//! cargo run --example rate -- http://127.0.0.1:7420
//! ```

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use leasehold_client::Client;
use tokio::task::JoinSet;

type Failed = Box<dyn Error + Send + Sync>;

const WORKERS: usize = 7;
const AT_A_TIME: u32 = 3;
const STARTS: u32 = 5;
const WINDOW: Duration = Duration::from_secs(2);

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let endpoint = std::env::args().nth(1).ok_or("usage: rate ENDPOINT")?;
    let client = Client::connect(endpoint).await?;
    let working = Arc::<AtomicUsize>::default();

    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for number in 1..=WORKERS {
        let (client, working) = (client.clone(), Arc::clone(&working));
        tasks.spawn(async move {
            // Bounds the work at a time: the permit ends with the work, or with the process.
            let permit = client
                .semaphore("api/workers", AT_A_TIME)
                .permits(1)
                .await?;
            // Bounds the starts in a window: nobody releases this permit, it ends with its TTL.
            client
                .detached_lock("api/starts")
                .permits(1, STARTS)
                .ttl(WINDOW)
                .wait(Duration::from_secs(60))
                .acquire()
                .await?;
            let together = working.fetch_add(1, Ordering::SeqCst) + 1;
            println!("worker {number} begins, one of {together}");
            assert!(together <= AT_A_TIME as usize);
            tokio::time::sleep(Duration::from_millis(10)).await;
            working.fetch_sub(1, Ordering::SeqCst);
            permit.release().await?;
            Ok::<_, Failed>(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    // The sixth had to wait for the first permit's end.
    assert!(begun.elapsed() >= WINDOW.mul_f64(0.9));
    println!("{WORKERS} workers are done");

    client.close().await;
    Ok(())
}
