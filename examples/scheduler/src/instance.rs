//! An instance of the scheduler: leads when it is elected, and then runs the jobs.

use std::{sync::Arc, time::Duration};

use anyhow::Context;
use clap::Args;
use leasehold_client::{Client, FencingToken, LeadershipWatch};
use leasehold_example_stage as stage;
use tokio::{
    select,
    signal::unix::{SignalKind, signal},
    sync::Mutex,
    time::sleep,
};

use crate::{
    table::{Next, Table},
    ticks::{Period, Tick},
};

/// Environment variable with the URL of Redis. The URL may hold a password, which does not belong on a command line.
pub(crate) const REDIS_URL: &str = "SCHEDULER_REDIS";

/// Arguments of an instance.
#[derive(Args, Clone, Debug)]
pub(crate) struct Orders {
    /// The election.
    #[arg(long)]
    pub(crate) election: String,
    /// The job table.
    #[arg(long)]
    pub(crate) table: String,
    /// The coordinator.
    #[arg(long)]
    pub(crate) endpoint: String,
    /// The number of this instance.
    #[arg(long)]
    pub(crate) number: u32,
    /// Milliseconds from tick to tick.
    #[arg(long)]
    pub(crate) period: u64,
    /// Milliseconds that a job takes.
    #[arg(long)]
    pub(crate) job: u64,
    /// Milliseconds for which a leadership outlives the loss of contact.
    #[arg(long)]
    pub(crate) ttl: u64,
}

/// Campaigns, and runs the jobs whenever it leads, until SIGTERM.
pub(crate) async fn run(orders: Orders) -> anyhow::Result<()> {
    let mut told_to_end = signal(SignalKind::terminate())?;
    let url = std::env::var(REDIS_URL).context("failed to learn where Redis is")?;
    let table = Table::new(stage::connect(&url).await?, &orders.table);
    let client = Client::builder()
        .client_name(format!("scheduler instance {}", orders.number))
        .ttl(Duration::from_millis(orders.ttl))
        .connect(&orders.endpoint)
        .await?;
    let election = client.election(orders.election.as_str());
    let name = orders.number.to_string();
    let scheduler = Scheduler {
        table,
        period: Period::from_millis(orders.period),
        orders,
        turn: Arc::default(),
    };
    let leading = async {
        loop {
            let lead = |leadership| scheduler.clone().lead(leadership);
            election.run_while_leader(name.as_str(), lead).await??;
        }
    };
    let ending = async {
        told_to_end.recv().await;
        // Between two ticks: what was begun is brought to its end.
        scheduler.turn.lock().await
    };
    // Kept to the end: dropping what leads resigns, or withdraws the candidacy, and nothing is begun after that.
    let _turn = select! {
        result = leading => return result,
        turn = ending => turn,
    };
    client.close().await;
    Ok(())
}

#[derive(Clone)]
struct Scheduler {
    table: Table,
    period: Period,
    orders: Orders,
    /// Held while a tick is run.
    turn: Arc<Mutex<()>>,
}

impl Scheduler {
    /// Runs every tick when it is due, going on after the last that was run, and ends when there is a later leader.
    async fn lead(self, leadership: LeadershipWatch) -> anyhow::Result<()> {
        loop {
            let due = self.period.now();
            // What was begun is brought to its end, whatever becomes of the leadership meanwhile: it is a task of its
            // own, which is not dropped together with what waits for it. So its write may come too late, and the table
            // refuses it then.
            let turn = self.clone().run_next(leadership.fencing_token(), due);
            match tokio::spawn(turn).await?? {
                Turn::Done => {}
                Turn::NothingDue => sleep(self.period.until(due + 1)).await,
                Turn::Deposed => return Ok(()),
            }
        }
    }

    /// Runs the next tick, if one is due; `due` is the newest that is.
    async fn run_next(mut self, token: FencingToken, due: Tick) -> anyhow::Result<Turn> {
        let _turn = self.turn.lock().await;
        let tick = match self.table.begin(token, due).await? {
            Next::Run(tick) => tick,
            Next::Wait => return Ok(Turn::NothingDue),
            Next::Deposed => return Ok(Turn::Deposed),
        };
        let late = self.period.since(tick);
        sleep(Duration::from_millis(self.orders.job)).await;
        // A careful leader would ask `is_leader()` now; but it could be stopped between asking and writing as well, so
        // this one doesn't bother.
        let number = self.orders.number;
        let done = self.table.finish(token, tick, number, late).await?;
        Ok(if done { Turn::Done } else { Turn::Deposed })
    }
}

/// End of a leader's term.
enum Turn {
    Done,
    NothingDue,
    Deposed,
}
