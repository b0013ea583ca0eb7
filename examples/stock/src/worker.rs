//! A worker process: sells until nothing is left.

use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum};
use leasehold_client::{Client, HoldError, LockGuard};
use leasehold_example_stage as stage;
use rustix::process::{Signal, getpid, kill_process};

use crate::shop::{Refused, Shop};

/// Environment variable with the URL of Redis. The URL may hold a password, which does not belong on a command line.
pub(crate) const REDIS_URL: &str = "STOCK_REDIS";

/// Arguments of a worker.
#[derive(Args, Clone, Debug)]
pub(crate) struct Orders {
    /// The shop, and its lock.
    #[arg(long)]
    pub(crate) shop: String,
    /// The coordinator.
    #[arg(long)]
    pub(crate) endpoint: String,
    /// The number of this worker.
    #[arg(long)]
    pub(crate) number: u32,
    /// The way to sell.
    #[arg(long)]
    pub(crate) manner: Manner,
    /// Milliseconds from reading the stock to writing it.
    #[arg(long)]
    pub(crate) think: u64,
    /// Milliseconds for which a lock outlives the loss of contact.
    #[arg(long)]
    pub(crate) ttl: u64,
}

/// Way to sell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Manner {
    /// Without a lock.
    Unlocked,
    /// Under a lock, with its fencing token.
    Locked,
    /// The same, but the process stops itself in the middle of its first sale, until it is told to go on.
    StopsOnce,
}

/// Sells until nothing is left.
pub(crate) async fn run(orders: Orders) -> anyhow::Result<()> {
    let url = std::env::var(REDIS_URL).context("failed to learn where Redis is")?;
    let shop = Shop::new(stage::connect(&url).await?, &orders.shop);
    match orders.manner {
        Manner::Unlocked => sell_unlocked(shop, &orders).await,
        Manner::Locked | Manner::StopsOnce => sell_locked(shop, &orders).await,
    }
}

/// Reads, thinks, writes: overwrites what others write in between, so that the same item is sold again.
async fn sell_unlocked(mut shop: Shop, orders: &Orders) -> anyhow::Result<()> {
    loop {
        let stock = shop.look_unprotected().await?;
        if stock <= 0 {
            return Ok(());
        }
        think(orders).await;
        shop.sell_unprotected(stock - 1).await?;
    }
}

/// Does the same while it holds the lock. Reads and writes carry its fencing token.
async fn sell_locked(mut shop: Shop, orders: &Orders) -> anyhow::Result<()> {
    let client = Client::builder()
        .client_name(format!("stock worker {}", orders.number))
        .ttl(Duration::from_millis(orders.ttl))
        .connect(&orders.endpoint)
        .await?;
    let mut stops = orders.manner == Manner::StopsOnce;
    loop {
        let guard = client.lock(orders.shop.as_str()).await?;
        let sale = sell_one(&mut shop, &guard, orders, &mut stops).await?;
        match guard.release().await {
            Ok(()) | Err(HoldError::Lost { .. }) => {}
            // It could not be told, so it may be held until the TTL has passed.
            Err(error) => eprintln!("worker {}: {error}", orders.number),
        }
        match sale {
            Ok(Sale::Sold) => {}
            Ok(Sale::SoldOut) => {
                client.close().await;
                return Ok(());
            }
            // The lock was lost without our noticing. Nothing was sold; try again with a new one.
            Err(Refused) => {}
        }
    }
}

enum Sale {
    Sold,
    SoldOut,
}

async fn sell_one(
    shop: &mut Shop,
    guard: &LockGuard,
    orders: &Orders,
    stops: &mut bool,
) -> anyhow::Result<Result<Sale, Refused>> {
    let token = guard.fencing_token();
    let stock = match shop.look(token, orders.number).await? {
        Ok(0) => return Ok(Ok(Sale::SoldOut)),
        Ok(stock) => stock,
        Err(refused) => return Ok(Err(refused)),
    };
    think(orders).await;
    if std::mem::take(stops) {
        kill_process(getpid(), Signal::STOP)?;
        // Much later. A careful worker would ask `guard.is_held()` now; but it could be stopped between asking and
        // writing as well, so this one doesn't bother.
    }
    let sold = shop.sell(token, stock - 1).await?;
    Ok(sold.map(|()| Sale::Sold))
}

async fn think(orders: &Orders) {
    tokio::time::sleep(Duration::from_millis(orders.think)).await;
}
