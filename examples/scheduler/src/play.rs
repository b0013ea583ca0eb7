//! Script of the demonstration: kills, stops and deposes leaders.

use std::{
    collections::BTreeMap,
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::Context;
use leasehold_client::{Client, FencingToken};
use leasehold_example_stage::{self as stage, Process, Service};
use tokio::{
    process::Command,
    time::{sleep, timeout},
};

use crate::{
    instance::REDIS_URL,
    leaders::{Leaders, Term},
    report::{Change, Kind, Outcome},
    show::Show,
    table::Table,
    ticks::{Period, Tick},
};

/// The TTL of the instances: how long there is no leader after one was stopped, and no time at all after a death.
pub(crate) const TTL: Duration = Duration::from_secs(2);
/// Ticks that run without trouble between two disturbances.
const PEACE: u32 = 5;
/// Longest time that any step may take before something must be wrong.
const PATIENCE: Duration = Duration::from_secs(20);
/// Interval at which the table is read while a step waits for something.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Parts of a demonstration.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) redis: Service,
    pub(crate) coordinators: Vec<Service>,
    pub(crate) instances: u32,
    pub(crate) period: u64,
    pub(crate) job: u64,
    pub(crate) kills: u32,
}

/// A demonstration that is being given.
struct Play<'a> {
    stage: &'a Stage,
    show: Show,
    period: Period,
    election: String,
    client: Client,
    table: Table,
    leaders: Leaders,
    instances: BTreeMap<u32, Process>,
    hired: u32,
    /// The last tick that is not to be run: they are numbered from there where they are shown.
    before_first: Tick,
    changes: Vec<Change>,
}

impl Stage {
    /// Gives the demonstration, and tells how it went.
    pub(crate) async fn play(&self) -> anyhow::Result<Outcome> {
        let election = format!("scheduler-example:{}", std::process::id());
        let redis = stage::connect(&self.redis.url).await?;
        let mut table = Table::new(redis, format!("{election}:jobs"));
        let show = Show::start();
        let mut clients = Vec::new();
        for coordinator in &self.coordinators {
            clients.push(Client::connect(&coordinator.url).await?);
        }
        // One prints what it sees, and the others are to see the same.
        let shows = [Some(show)].into_iter().chain(std::iter::repeat(None));
        let observers = clients
            .iter()
            .map(|client| client.election(election.as_str()).observe());
        let observed = observers
            .zip(shows)
            .map(|(o, show)| Leaders::observe(o, show));
        let mut observed = observed.collect::<Vec<_>>().into_iter();
        let period = Period::from_millis(self.period);
        let before_first = period.now();
        table.open(before_first).await?;
        let mut play = Play {
            stage: self,
            show,
            period,
            election,
            client: clients.first().context("there is a coordinator")?.clone(),
            table,
            leaders: observed.next().context("there is a coordinator")?,
            instances: BTreeMap::new(),
            hired: 0,
            before_first,
            changes: Vec::new(),
        };
        let end = play.give().await?;

        let mut seen = vec![play.leaders.seen()];
        let last = play.leaders.now()?;
        for mut other in observed {
            other.catch_up(last.token).await?;
            seen.push(other.seen());
        }
        let outcome = Outcome {
            period: self.period,
            due: before_first + 1..=end,
            books: play.table.books().await?,
            changes: play.changes,
            seen,
        };
        play.table.clear().await?;
        Ok(outcome)
    }
}

impl Play<'_> {
    /// Gives the demonstration from beginning to end; returns the last tick that was to be run.
    async fn give(&mut self) -> anyhow::Result<Tick> {
        for _ in 0..self.stage.instances {
            self.hire()?;
        }
        self.leaders.first().await?;
        for kill in 0..self.stage.kills {
            self.peace().await?;
            // Every other time when it is in the middle of a tick, else at any moment.
            self.kill_leader(kill % 2 == 0).await?;
        }
        self.peace().await?;
        self.stop_leader().await?;
        self.peace().await?;
        self.depose_leader().await?;
        self.peace().await?;
        self.send_leader_home().await?;
        self.peace().await?;

        let end_tick = self.period.now();
        self.run_up_to(end_tick).await?;
        self.show.line("all instances are told to end");
        // The leader last, so that there is no other after it.
        let leader = self.leaders.now()?;
        let leader = self.take(leader)?;
        let candidates = std::mem::take(&mut self.instances).into_values();
        for instance in candidates.chain([leader]) {
            end(instance).await?;
        }
        Ok(end_tick)
    }

    /// Kills the leader; another instance takes its place among the candidates.
    async fn kill_leader(&mut self, in_the_middle: bool) -> anyhow::Result<()> {
        let leader = self.leaders.now()?;
        let mut running = None;
        if in_the_middle {
            running = Some(self.running(leader.token).await?);
        } else {
            sleep(self.period.length().mul_f64(fastrand::f64())).await;
        }
        let process = self.take(leader)?;
        let during = running.map_or(String::new(), |tick| format!(" during {}", self.name(tick)));
        self.show.line(format_args!(
            "instance {} is killed{during}",
            leader.instance
        ));
        let since = Instant::now();
        process.kill().await?;
        self.next_leader(Kind::Killed { running }, leader, since)
            .await?;
        self.hire()
    }

    /// Stops the leader in the middle of a tick, for so long that another one leads, and lets it go on then.
    async fn stop_leader(&mut self) -> anyhow::Result<()> {
        let (leader, tick, process) = loop {
            let leader = self.leaders.now()?;
            let tick = self.running(leader.token).await?;
            let mut process = self.take(leader)?;
            process.stop().await?;
            // If it had just sent its write, it arrives now.
            sleep(LOOK_EVERY * 10).await;
            if self.table.running(leader.token).await? == Some(tick) {
                break (leader, tick, process);
            }
            process.go_on()?;
            self.instances.insert(leader.instance, process);
        };
        let since = Instant::now();
        self.show.line(format_args!(
            "instance {} is stopped during {}",
            leader.instance,
            self.name(tick)
        ));
        let next = self.next_leader(Kind::Stopped, leader, since).await?;
        // The next has taken the table over.
        self.running(next.token).await?;
        sleep(TTL.saturating_sub(since.elapsed())).await;
        self.show
            .line(format_args!("instance {} goes on", leader.instance));
        process.go_on()?;
        let refused = async {
            loop {
                let writes = self.table.books().await?.late_writes;
                let token = leader.token.get();
                if let Some(write) = writes.into_iter().find(|write| write.token == token) {
                    return anyhow::Ok(write);
                }
                sleep(LOOK_EVERY).await;
            }
        };
        // What is missing then shows in the report.
        if let Ok(write) = timeout(PATIENCE, refused).await {
            let write = write?;
            self.show.line(format_args!(
                "the job table refuses what instance {} writes for {}: its token {} is old",
                write.instance,
                self.name(write.tick),
                write.token
            ));
        }
        self.instances.insert(leader.instance, process);
        Ok(())
    }

    /// Takes the leadership from the leader, as an operator does.
    async fn depose_leader(&mut self) -> anyhow::Result<()> {
        let leader = self.leaders.now()?;
        self.show.line(format_args!(
            "the leadership of instance {} is force-released",
            leader.instance
        ));
        let since = Instant::now();
        let admin = self.client.admin();
        admin.force_release(&self.election).await?;
        self.next_leader(Kind::Deposed, leader, since).await?;
        Ok(())
    }

    /// Tells the leader to end; another instance takes its place among the candidates.
    async fn send_leader_home(&mut self) -> anyhow::Result<()> {
        let leader = self.leaders.now()?;
        let process = self.take(leader)?;
        self.show
            .line(format_args!("instance {} is told to end", leader.instance));
        let since = Instant::now();
        end(process).await?;
        self.next_leader(Kind::Resigned, leader, since).await?;
        self.hire()
    }

    /// Waits for the leader after this one, and notes how that went.
    async fn next_leader(
        &mut self,
        kind: Kind,
        last: Term,
        since: Instant,
    ) -> anyhow::Result<Term> {
        let next = self.leaders.after(last.token).await?;
        self.changes.push(Change {
            kind,
            from: last.token.get(),
            to: next.token.get(),
            took: next.since.saturating_duration_since(since),
        });
        Ok(next)
    }

    /// Waits until the leader with this token is in the middle of a tick.
    async fn running(&mut self, token: FencingToken) -> anyhow::Result<Tick> {
        let running = async {
            loop {
                if let Some(tick) = self.table.running(token).await? {
                    return Ok(tick);
                }
                sleep(LOOK_EVERY).await;
            }
        };
        timeout(PATIENCE, running)
            .await
            .context("the leader runs no ticks")?
    }

    /// Lets a while pass undisturbed, until the leader has run all ticks that were due.
    async fn peace(&mut self) -> anyhow::Result<()> {
        sleep(self.period.length() * PEACE).await;
        self.run_up_to(self.period.now()).await
    }

    /// Waits until this tick was run. If it is not, that shows in the report.
    async fn run_up_to(&mut self, tick: Tick) -> anyhow::Result<()> {
        let run = async {
            while self.table.last().await? < tick {
                sleep(LOOK_EVERY).await;
            }
            Ok(())
        };
        timeout(PATIENCE, run).await.unwrap_or(Ok(()))
    }

    /// Returns the process of an instance, to end or stop it.
    fn take(&mut self, leader: Term) -> anyhow::Result<Process> {
        let process = self.instances.remove(&leader.instance);
        process.with_context(|| format!("there is no instance {}", leader.instance))
    }

    /// Starts another instance; they take the coordinators in turn.
    fn hire(&mut self) -> anyhow::Result<()> {
        let turn = self.hired as usize % self.stage.coordinators.len();
        let coordinator = self.stage.coordinators.get(turn);
        let endpoint = &coordinator.context("there is a coordinator")?.url;
        self.hired += 1;
        let number = self.hired;
        let mut command = Command::new(stage::this_program()?);
        command
            .arg("instance")
            .args(["--election", &self.election])
            .args(["--table", self.table.key()])
            .args(["--endpoint", endpoint])
            .args(["--number", &number.to_string()])
            .args(["--period", &self.stage.period.to_string()])
            .args(["--job", &self.stage.job.to_string()])
            .args(["--ttl", &TTL.as_millis().to_string()])
            .env(REDIS_URL, &self.stage.redis.url)
            .stdin(Stdio::null());
        let process = Process::start(format!("instance {number}"), command)?;
        self.instances.insert(number, process);
        Ok(())
    }

    /// Returns the name to show for a tick.
    fn name(&self, tick: Tick) -> String {
        format!("tick {}", tick.saturating_sub(self.before_first))
    }
}

/// Tells an instance to end, and waits until it has.
async fn end(instance: Process) -> anyhow::Result<()> {
    instance.terminate()?;
    let ended = timeout(PATIENCE, instance.end()).await;
    ended.context("an instance does not end")?
}
