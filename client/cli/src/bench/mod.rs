//! `bench`: measures a deployment as its clients see it.

mod hints;
mod options;
mod page;
mod progress;
mod sessions;
mod summary;
mod tally;
mod worker;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, anyhow};
use leasehold_load::Exclusion;
use rustix::time::{ClockId, clock_gettime};
use tokio::{
    signal::unix::SignalKind,
    task::JoinSet,
    time::{interval, sleep_until, timeout},
};

pub(crate) use options::{ABOUT, BenchOptions, HELP};

use self::{
    progress::{Progress, Rate, TICK},
    sessions::Sessions,
    summary::{Ended, Summary},
    tally::{Tally, Window},
    worker::{Stop, Worker},
};
use crate::{
    connection::Connection,
    exit::{Exit, Outcome},
    report,
    say::say,
    show,
    signals::Signals,
};

/// Longest time that the tool waits for sessions to close: their connections end with it anyway.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Measures, and prints the results.
pub(crate) async fn run(connection: &Connection, options: BenchOptions, as_json: bool) -> Outcome {
    let kinds = [
        SignalKind::interrupt(),
        SignalKind::terminate(),
        SignalKind::hangup(),
    ];
    let mut signals = Signals::listen(kinds).context("failed to listen for signals")?;
    let progress = Progress::new(options.quiet, options.clients as usize);
    let opening = Sessions::open(connection, &options, &progress);
    let sessions = match signals.or(opening).await {
        Ok(opened) => opened.inspect_err(|_| progress.clear())?,
        Err(signal) => {
            progress.clear();
            say("interrupted before anything was measured");
            return Ok(Exit::signal(signal));
        }
    };
    let names = options.names.clone().unwrap_or_else(random_prefix);
    let measured = measure(&sessions, &options, &names, &mut signals, &progress).await;
    progress.clear();
    let (window, tally, ended, cpu) = measured?;
    // A second signal does not wait for that.
    let closing = timeout(CLOSE_TIMEOUT, sessions.close());
    signals.or(closing).await.ok();
    let counts = tally.counts();
    let summary = Summary {
        endpoint: &connection.endpoint,
        coordinators: &sessions.coordinators,
        options: &options,
        names: &names,
        ttl: sessions.ttl,
        measured: window.end.saturating_duration_since(window.begin),
        cpu,
        ended: &ended,
        counts: &counts,
    };
    show::answer(as_json, &summary, || &summary)?;
    let cycles = summary.cycles();
    Ok(conclude(ended, cycles, as_json))
}

/// Reports an error on standard error, and returns the exit code.
fn conclude(ended: Ended, cycles: u64, as_json: bool) -> Exit {
    match ended {
        Ended::Violation(violation) => {
            report::report(&violation.into(), as_json);
            Exit::VIOLATION
        }
        Ended::Interrupted(signal) => {
            say("interrupted; printing the measurements so far");
            Exit::signal(signal)
        }
        Ended::Completed if cycles == 0 => {
            let nothing = anyhow!("no cycle was completed within the measured time");
            report::report(&nothing, as_json);
            Exit::FAILURE
        }
        Ended::Completed => Exit::SUCCESS,
    }
}

/// Lets the clients work until the time is over, or something ends it early. All of them have stopped when this returns.
async fn measure(
    sessions: &Sessions,
    options: &BenchOptions,
    names: &str,
    signals: &mut Signals,
    progress: &Progress,
) -> anyhow::Result<(Window, Arc<Tally>, Ended, Duration)> {
    let start = Instant::now();
    let begin = start + options.warm_up;
    let mut window = Window {
        begin,
        end: begin + options.duration,
    };
    let tally = Arc::new(Tally::new(window, sessions.all.len())?);
    let mut watch = Watch {
        workers: spawn(sessions, options, names, &tally),
        tally: Arc::clone(&tally),
        signals,
        progress,
        rate: Rate::default(),
    };
    let early = watch.until("warming up", start, window.begin).await?;
    let cpu_before = cpu_time();
    let early = match early {
        None => watch.until("measuring", window.begin, window.end).await?,
        early => early,
    };
    let cpu = cpu_time().saturating_sub(cpu_before);
    // Dropping their futures cancels their acquires and releases their locks.
    watch.workers.shutdown().await;
    window.end = window.end.min(Instant::now());
    let ended = early.unwrap_or(Ended::Completed);
    Ok((window, tally, ended, cpu))
}

fn spawn(
    sessions: &Sessions,
    options: &BenchOptions,
    prefix: &str,
    tally: &Arc<Tally>,
) -> JoinSet<Stop> {
    let shared = options
        .contended
        .then(|| Arc::new(Exclusion::new(format!("{prefix}contended"))));
    let mut workers = JoinSet::new();
    for (client, session) in sessions.all.iter().enumerate() {
        for number in 0..options.in_flight {
            let name = match &shared {
                Some(shared) => Arc::clone(shared),
                None => Arc::new(Exclusion::new(format!("{prefix}{client}/{number}"))),
            };
            let worker = Worker {
                client,
                session: session.clone(),
                name,
                hold: options.hold,
                tally: Arc::clone(tally),
            };
            workers.spawn(worker.work());
        }
    }
    workers
}

/// Events to watch for while clients work.
struct Watch<'a> {
    workers: JoinSet<Stop>,
    tally: Arc<Tally>,
    signals: &'a mut Signals,
    progress: &'a Progress,
    rate: Rate,
}

impl Watch<'_> {
    /// Lets the clients work until `end`. Returns why the run ended before, if so.
    async fn until(
        &mut self,
        what: &'static str,
        begin: Instant,
        end: Instant,
    ) -> anyhow::Result<Option<Ended>> {
        let length = end.saturating_duration_since(begin);
        self.progress.phase(what, length);
        let mut ticks = interval(TICK);
        let over = sleep_until(end.into());
        tokio::pin!(over);
        loop {
            tokio::select! {
                biased;
                signal = self.signals.next() => return Ok(Some(Ended::Interrupted(signal))),
                Some(ended) = self.workers.join_next() => match ended? {
                    Stop::Violation(violation) => return Ok(Some(Ended::Violation(violation))),
                    Stop::Refused(error) => return Err(error.into()),
                },
                () = &mut over => return Ok(None),
                _ = ticks.tick() => {
                    let now = Instant::now();
                    let rate = self.rate.now(now, self.tally.cycles_so_far());
                    self.progress.show(now.saturating_duration_since(begin), length, rate);
                }
            }
        }
    }
}

/// Returns a random prefix, which no other locks have.
fn random_prefix() -> Arc<str> {
    format!("bench/{:016x}/", fastrand::u64(..)).into()
}

/// Returns the CPU time of this process so far.
fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}
