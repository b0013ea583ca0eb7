//! Leader that is cut off in both directions: it steps down before the next one leads.
//!
//! What it believes is compared with Redis's clock, which is this machine's: the last moment at which it still said that it
//! leads, with that of the next election. Whoever waits for the loss is woken by its runtime, so a machine that stands
//! still may wake it late.

use std::{
    thread,
    time::{Duration, Instant, SystemTime},
};

use crate::LATE;
use futures_util::future::join_all;
use leasehold_client::{Client, LeadershipWatch, LostReason};
use leasehold_tests::{
    FaultProxy, Site,
    proxy::{Direction, Flow},
    report,
    stalls::Stalls,
};
use tokio::{
    sync::{mpsc, oneshot},
    task::spawn_blocking,
};

const TTL: Duration = Duration::from_secs(2);
const RUNS: usize = 50;
const AT_ONCE: usize = 25;
/// Interval at which the test asks a leader whether it leads.
const ASK: Duration = Duration::from_micros(500);
/// Margin taken off every promise: 1 % of the TTL and 2 ms. A leader that wakes later than that was kept from running.
const TAKEN_OFF: Duration = Duration::from_millis(22);

/// Result of one run.
struct Run {
    /// From when the leader last said that it leads to when the next was elected, both by this machine's clock.
    believed: Duration,
    /// From when the leader's own code knew to when the next one's did; the other way round if negative.
    woken: Result<Duration, Duration>,
}

/// Discards all bytes from now on, and closes nothing.
fn cut_off(proxy: &FaultProxy) {
    proxy.set_flow(Direction::ToServer, Flow::Discard);
    proxy.set_flow(Direction::ToClient, Flow::Discard);
}

/// Returns the time just before the last question that a leader answered with yes.
fn last_yes(watch: &LeadershipWatch) -> SystemTime {
    let mut last = None;
    loop {
        let asked = SystemTime::now();
        if !watch.is_leader() {
            return last.expect("it led when it was cut off");
        }
        last = Some(asked);
        thread::sleep(ASK);
    }
}

async fn run(site: &Site, number: usize) -> Run {
    let election = format!("cut off/{number}");
    let proxy = FaultProxy::before(&site.endpoint(number)).await;
    let builder = Client::builder().ttl(TTL);
    let client = builder.connect(proxy.endpoint()).await.unwrap();
    let leadership = client.election(&*election).campaign("old").await.unwrap();
    let token = leadership.fencing_token();
    let mut next = site.candidate(number / 2, &election, b"new").await;
    // At any point between two heartbeats.
    let interval = TTL / 3;
    let phase = interval * (number % AT_ONCE) as u32 / AT_ONCE as u32;
    tokio::time::sleep(phase).await;

    cut_off(&proxy);
    let watch = leadership.watch();
    let believed = spawn_blocking(move || last_yes(&watch));
    let lost = leadership.lost();
    let lost = tokio::spawn(async move { (lost.await, Instant::now()) });
    let term = next.elected(TTL + LATE + LATE).await;
    let ((reason, lost_at), believed) = (lost.await.unwrap(), believed.await.unwrap());
    assert!(!leadership.is_leader());
    assert!(term.token > token.get());
    let seen = site.leader(number, &election).await.unwrap();
    assert_eq!(seen.fencing_token, term.token);
    let elected_at = SystemTime::try_from(seen.elected_at.unwrap()).unwrap();
    let run = Run {
        believed: elected_at
            .duration_since(believed)
            .unwrap_or_else(|early| panic!("two led for {:?} in {election}", early.duration())),
        woken: term
            .at
            .checked_duration_since(lost_at)
            .ok_or_else(|| lost_at - term.at),
    };
    assert_eq!(reason, LostReason::Expired);
    assert!(next.resign().await);
    run
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_cut_off_steps_down_before_the_next_leads_in_every_run() {
    let site = Site::redis(2).await;
    let stalls = Stalls::watch();
    let (mut believed, mut woken, mut late) = (Vec::new(), Vec::new(), 0);
    for first in (0..RUNS).step_by(AT_ONCE) {
        stalls.worst();
        let runs = join_all((first..first + AT_ONCE).map(|number| run(&site, number))).await;
        let stall = stalls.worst();
        for run in runs {
            believed.push(run.believed);
            match run.woken {
                Ok(margin) => woken.push(margin),
                // The whole machine stood still for longer than what is there for it.
                Err(_) if stall > TAKEN_OFF / 2 => late += 1,
                Err(after) => panic!("told of the loss {after:?} after the next election"),
            }
        }
    }
    for (what, margins) in [("stopped believing", &mut believed), ("knew", &mut woken)] {
        margins.sort_unstable();
        report(format!(
            "a leader cut off {what} before the next was elected: n={} min={:?} median={:?}",
            margins.len(),
            margins[0],
            margins[margins.len() / 2],
        ));
    }
    report(format!(
        "{late} of {RUNS} were woken late, as the machine stood still"
    ));
    assert_eq!(believed.len(), RUNS);
    assert!(late <= RUNS / 5, "{late} runs say nothing of the wake-up");
    site.nothing_is_left().await;
}

/// Tells when the work is dropped.
struct Work(Option<oneshot::Sender<Instant>>);

impl Drop for Work {
    fn drop(&mut self) {
        // The test may have failed meanwhile.
        let _ = self.0.take().map(|tell| tell.send(Instant::now()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leaders_work_stops_at_the_deadline_not_at_its_next_tick() {
    const ELECTION: &str = "cut off/work";
    /// The work looks whether it still leads, but not often.
    const TICK: Duration = Duration::from_secs(600);
    let site = Site::redis(2).await;
    let proxy = FaultProxy::before(&site.endpoint(0)).await;
    let builder = Client::builder().ttl(TTL);
    let client = builder.connect(proxy.endpoint()).await.unwrap();
    let election = client.election(ELECTION);
    let (tell, mut terms) = mpsc::unbounded_channel();
    let leading = tokio::spawn(async move {
        let work = |leadership: LeadershipWatch| {
            let (dropped, ended) = oneshot::channel();
            tell.send((leadership.clone(), ended)).unwrap();
            let work = Work(Some(dropped));
            async move {
                let _work = work;
                while leadership.is_leader() {
                    tokio::time::sleep(TICK).await;
                }
            }
        };
        election.run_while_leader("old", work).await
    });
    let (first, ended) = terms.recv().await.unwrap();
    let mut next = site.candidate(1, ELECTION, b"new").await;
    cut_off(&proxy);
    let no_sooner = Instant::now() + first.valid_for();
    let stopped = ended.await.unwrap();
    assert!(stopped >= no_sooner, "{:?} too early", no_sooner - stopped);
    assert!(!first.is_leader());
    let term = next.elected(LATE).await;
    assert!(term.token > first.fencing_token().get());
    report(format!(
        "the work stopped {:?} after the deadline at the earliest, {:?} before the next led",
        stopped - no_sooner,
        term.at.saturating_duration_since(stopped),
    ));
    // When it is back, it leads again when it is its turn, in a new term.
    proxy.forward();
    assert!(next.resign().await);
    let again = tokio::time::timeout(Duration::from_secs(20), terms.recv()).await;
    let (second, _) = again.unwrap().unwrap();
    assert!(second.is_leader());
    assert!(second.fencing_token().get() > term.token);
    leading.abort();
    client.close().await;
    site.nothing_is_left().await;
}
