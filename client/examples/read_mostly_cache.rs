//! Example of a cache that many read and that one of them rebuilds when it is too old: readers share the lock, and a rebuild has it
//! alone.
//!
//! ```text
//! cargo run --example read_mostly_cache -- http://127.0.0.1:7420
//! ```

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::{
    error::Error,
    path::Path,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::Duration,
};

use leasehold_client::Client;
use tokio::{fs, task::JoinSet, time::sleep};

type BoxError = Box<dyn Error + Send + Sync>;

const NAME: &str = "cache/prices";
const FRESH_FOR: Duration = Duration::from_millis(300);

static REBUILDS: AtomicU32 = AtomicU32::new(0);

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let endpoint = std::env::args()
        .nth(1)
        .ok_or("usage: read_mostly_cache ENDPOINT")?;
    let folder = tempfile::tempdir()?;
    let cache = folder.path().join("prices");
    let mut readers = JoinSet::new();
    for _ in 0..8 {
        // As if each were a program of its own.
        let client = Client::connect(endpoint.as_str()).await?;
        let cache = cache.clone();
        readers.spawn(async move {
            for _ in 0..20 {
                let prices = read(&client, &cache).await?;
                assert_eq!(prices.lines().count(), 100, "a whole list");
                sleep(Duration::from_millis(20)).await;
            }
            client.close().await;
            Ok::<_, BoxError>(())
        });
    }
    while let Some(done) = readers.join_next().await {
        done??;
    }
    let rebuilds = REBUILDS.load(Relaxed);
    // Never by two at once, and not by each of them.
    assert!((1..40).contains(&rebuilds), "{rebuilds} rebuilds");
    println!("{rebuilds} rebuilds for 160 reads");
    println!("every reader saw a whole list");
    Ok(())
}

/// Reads the prices, and rebuilds them first if they are too old.
async fn read(client: &Client, cache: &Path) -> Result<String, BoxError> {
    // Many read at once, and none while somebody writes.
    let reading = client.lock(NAME).shared().await?;
    if is_fresh(cache).await {
        let prices = fs::read_to_string(cache).await?;
        reading.release().await?;
        return Ok(prices);
    }
    reading.release().await?;

    let writing = client.lock(NAME).await?;
    // Somebody else may have rebuilt them meanwhile.
    if !is_fresh(cache).await {
        tokio::select! {
            reason = writing.lost() => return Err(format!("lost the lock: {reason}").into()),
            rebuilt = rebuild(cache) => rebuilt?,
        }
    }
    // Lets the readers in, but no other writer.
    writing.downgrade().await?;
    let prices = fs::read_to_string(cache).await?;
    writing.release().await?;
    Ok(prices)
}

async fn is_fresh(cache: &Path) -> bool {
    let Ok(file) = fs::metadata(cache).await else {
        return false;
    };
    let age = file.modified().ok().and_then(|time| time.elapsed().ok());
    age.is_some_and(|age| age < FRESH_FOR)
}

/// Writes the prices in pieces: a reader without the lock would see half of them.
async fn rebuild(cache: &Path) -> Result<(), BoxError> {
    REBUILDS.fetch_add(1, Relaxed);
    let mut prices = String::new();
    for half in 0..2 {
        for item in 0..50 {
            prices += &format!("item {}: 3.50\n", 50 * half + item);
        }
        fs::write(cache, &prices).await?;
        sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}
