//! The parts of the demonstration.

use std::{
    collections::BTreeMap,
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::Context;
use leasehold_example_stage::{self as stage, Process, Service};
use tokio::{process::Command, time::timeout};

use crate::{
    shop::{Books, Shop},
    worker::{Manner, REDIS_URL},
};

/// Longest time that a part may take before something must be wrong.
const PATIENCE: Duration = Duration::from_secs(60);
/// Interval at which a worker is killed.
const KILL_EVERY: Duration = Duration::from_millis(100);
/// The TTL of most workers: longer than anything that happens to them, so that a lock that comes free earlier than that
/// was released.
const TTL: Duration = Duration::from_secs(10);
/// The TTL of the worker that stops: how long the others have to wait for it.
const SHORT_TTL: Duration = Duration::from_secs(1);

/// Servers and settings that the parts share.
#[derive(Debug)]
pub(crate) struct Market {
    pub(crate) redis: Service,
    pub(crate) coordinator: Service,
    pub(crate) stock: i64,
    pub(crate) workers: u32,
    pub(crate) think: Duration,
}

/// Outcome of a part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    pub(crate) offered: i64,
    pub(crate) books: Books,
    pub(crate) killed: u32,
    pub(crate) took: Duration,
}

impl Outcome {
    /// Returns whether the workers sold exactly the stock.
    pub(crate) fn is_exact(&self) -> bool {
        self.books.sold == self.offered && self.books.stock == 0
    }
}

impl Market {
    /// Workers without a lock.
    pub(crate) async fn unlocked(&self) -> anyhow::Result<Outcome> {
        self.part("unlocked", self.stock, async |shop| {
            self.sell_out(shop, Manner::Unlocked).await
        })
        .await
    }

    /// Workers with a lock.
    pub(crate) async fn locked(&self) -> anyhow::Result<Outcome> {
        self.part("locked", self.stock, async |shop| {
            self.sell_out(shop, Manner::Locked).await
        })
        .await
    }

    /// Workers with a lock; every moment one of them is killed, and another takes its place.
    pub(crate) async fn killed(&self) -> anyhow::Result<Outcome> {
        self.part("killed", self.stock, async |shop| {
            let mut staff = Staff::new(self, shop, Manner::Locked, TTL);
            for _ in 0..self.workers {
                staff.hire()?;
            }
            let mut killed = 0;
            loop {
                tokio::time::sleep(KILL_EVERY).await;
                if shop.books().await?.stock == 0 {
                    break;
                }
                // Every other time any, and else one that is in the middle of a sale.
                let chosen = if killed % 2 == 0 {
                    at_the_counter(shop).await?
                } else {
                    None
                };
                staff.kill(chosen).await?;
                staff.hire()?;
                killed += 1;
            }
            staff.go_home().await?;
            Ok(killed)
        })
        .await
    }

    /// Workers with a lock; one of them is stopped in the middle of a sale until the lock is another's, then goes on.
    pub(crate) async fn stopped(&self) -> anyhow::Result<Outcome> {
        // A few sales show it.
        self.part("stopped", (self.stock / 4).max(1), async |shop| {
            let mut sleeper = Staff::new(self, shop, Manner::StopsOnce, SHORT_TTL);
            sleeper.hire()?.stopped().await?;
            let mut staff = Staff::new(self, shop, Manner::Locked, TTL);
            for _ in 1..self.workers.max(2) {
                staff.hire()?;
            }
            while shop.books().await?.sold == 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            sleeper.go_on()?;
            sleeper.go_home().await?;
            staff.go_home().await?;
            Ok(0)
        })
        .await
    }

    /// Opens a shop, has it sold out by `sell`, which tells how many workers it killed, and closes the books.
    async fn part(
        &self,
        name: &str,
        stock: i64,
        sell: impl AsyncFnOnce(&mut Shop) -> anyhow::Result<u32>,
    ) -> anyhow::Result<Outcome> {
        let key = format!("stock-example:{}:{name}", std::process::id());
        let mut shop = Shop::new(stage::connect(&self.redis.url).await?, key);
        shop.open(stock).await?;
        let started = Instant::now();
        let killed = timeout(PATIENCE, sell(&mut shop))
            .await
            .with_context(|| format!("the stock was not sold out within {PATIENCE:?}"))??;
        let outcome = Outcome {
            offered: stock,
            books: shop.books().await?,
            killed,
            took: started.elapsed(),
        };
        shop.clear().await?;
        Ok(outcome)
    }

    async fn sell_out(&self, shop: &Shop, manner: Manner) -> anyhow::Result<u32> {
        let mut staff = Staff::new(self, shop, manner, TTL);
        for _ in 0..self.workers {
            staff.hire()?;
        }
        staff.go_home().await?;
        Ok(0)
    }
}

/// Returns the worker that is in the middle of a sale; `None` if there was none for a while.
async fn at_the_counter(shop: &mut Shop) -> anyhow::Result<Option<u32>> {
    for _ in 0..100 {
        let worker = shop.at_the_counter().await?;
        if worker.is_some() {
            return Ok(worker);
        }
    }
    Ok(None)
}

/// The worker processes of a shop.
struct Staff<'a> {
    market: &'a Market,
    shop: String,
    manner: Manner,
    ttl: Duration,
    hired: u32,
    workers: BTreeMap<u32, Process>,
}

impl<'a> Staff<'a> {
    fn new(market: &'a Market, shop: &Shop, manner: Manner, ttl: Duration) -> Self {
        Self {
            market,
            shop: shop.key().to_owned(),
            manner,
            ttl,
            hired: 0,
            workers: BTreeMap::new(),
        }
    }

    /// Starts another worker.
    fn hire(&mut self) -> anyhow::Result<&mut Process> {
        self.hired += 1;
        let number = self.hired;
        let manner = match self.manner {
            Manner::Unlocked => "unlocked",
            Manner::Locked => "locked",
            Manner::StopsOnce => "stops-once",
        };
        let mut command = Command::new(stage::this_program()?);
        command
            .arg("worker")
            .args(["--shop", &self.shop])
            .args(["--endpoint", &self.market.coordinator.url])
            .args(["--number", &number.to_string()])
            .args(["--manner", manner])
            .args(["--think", &self.market.think.as_millis().to_string()])
            .args(["--ttl", &self.ttl.as_millis().to_string()])
            .env(REDIS_URL, &self.market.redis.url)
            .stdin(Stdio::null());
        let worker = Process::start(format!("worker {number}"), command)?;
        Ok(self.workers.entry(number).or_insert(worker))
    }

    /// Kills a worker: the chosen one, if it is there, or any.
    async fn kill(&mut self, chosen: Option<u32>) -> anyhow::Result<()> {
        let any = || fastrand::choice(self.workers.keys()).copied();
        let number = chosen.filter(|number| self.workers.contains_key(number));
        if let Some(worker) = number.or_else(any).and_then(|n| self.workers.remove(&n)) {
            worker.kill().await?;
        }
        Ok(())
    }

    /// Lets those go on who have stopped.
    fn go_on(&self) -> anyhow::Result<()> {
        for worker in self.workers.values() {
            worker.go_on()?;
        }
        Ok(())
    }

    /// Waits until all have ended by themselves.
    async fn go_home(self) -> anyhow::Result<()> {
        for (_, worker) in self.workers {
            worker.end().await?;
        }
        Ok(())
    }
}
