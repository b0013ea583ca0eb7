//! Death of the leader's process, again and again: the next one leads at once, and all observers see the same.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use leasehold_tests::{Latencies, RawObserver, Site, Worker, raw::PROMPT, report};
use rustix::process::Signal;

use crate::elections::history::{History, Watcher};

const ELECTION: &str = "killed";
const TTL: Duration = Duration::from_secs(30);
const CANDIDATES: usize = 5;
const COORDINATORS: usize = 2;
const OBSERVERS: usize = 3 * COORDINATORS;
const ROUNDS: usize = 200;
/// Workers are started beforehand, so that no start disturbs a measurement.
const BATCH: usize = 20;
/// Within what nine of ten lead on a machine that is fast enough.
const WITHIN: Duration = Duration::from_millis(15);
/// The election that candidates resign from.
const RESIGNED: &str = "resigned";

/// A process that is to campaign.
struct Process {
    worker: Worker,
    number: usize,
}

impl Process {
    /// Starts the candidates. Two in a row are at the same coordinator, so that leadership goes both to the same and to another
    /// one.
    fn start(site: &Site, number: usize) -> Self {
        let worker = Worker::start(&site.endpoint(number / 2), TTL);
        Self { worker, number }
    }

    fn value(&self) -> String {
        format!("process-{}", self.number)
    }

    /// Campaigns through the client, or by the wire API.
    fn campaign(&mut self) {
        let how = ["campaign", "stand"][self.number / 4 % 2];
        let order = format!("{how} {ELECTION} {}", self.value());
        self.worker.order(&order);
    }
}

/// Returns the processes of the next rounds, which do nothing yet.
async fn reserve(site: &Site, first: usize, count: usize) -> Vec<Process> {
    let mut processes: Vec<_> = (first..first + count)
        .map(|number| Process::start(site, number))
        .collect();
    for process in &mut processes {
        process.worker.ready().await;
    }
    processes.reverse();
    processes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_sigkill_of_the_leader_the_next_leads_at_once() {
    let site = Site::redis(COORDINATORS).await;
    let mut observers: Vec<RawObserver> = Vec::new();
    let mut watchers: Vec<Watcher> = Vec::new();
    for at in 0..OBSERVERS {
        observers.push(site.observer(at, ELECTION).await);
    }
    for at in 0..COORDINATORS {
        watchers.push(Watcher::watch(site.channel(at), ELECTION).await);
    }
    for observer in &mut observers {
        assert_eq!(observer.next(PROMPT).await.token(), None);
    }

    let mut history = History::default();
    let mut latencies = Latencies::new("from SIGKILL of the leader to the next that leads");
    let mut plain =
        Latencies::new("from a resignation to the next that leads, in turns with these");
    let mut resigning = site.candidate(0, RESIGNED, b"").await;
    resigning.elected(PROMPT).await;
    let mut waiting = VecDeque::new();
    let mut reserves = reserve(&site, 0, CANDIDATES).await;
    let mut started = CANDIDATES;
    let mut leader = reserves.pop().unwrap();
    leader.campaign();
    let (_, token) = leader.worker.elected(ELECTION, PROMPT).await;
    history.elected(token, leader.value());
    while let Some(mut next) = reserves.pop() {
        next.campaign();
        waiting.push_back(next);
        site.waiting(0, ELECTION, waiting.len() as u64).await;
    }
    for round in 0..ROUNDS {
        if round % BATCH == 0 {
            reserves = reserve(&site, started, BATCH).await;
            started += BATCH;
        }
        let mut next = waiting.pop_front().unwrap();
        let killed = Instant::now();
        leader.worker.child().signal(Signal::KILL);
        let (at, token) = next.worker.elected(ELECTION, TTL).await;
        latencies.record(at - killed);
        history.elected(token, next.value());
        leader = next;
        let mut last = reserves.pop().unwrap();
        last.campaign();
        waiting.push_back(last);
        site.waiting(round, ELECTION, waiting.len() as u64).await;

        let mut next = site.candidate(round, RESIGNED, b"").await;
        let resigned = Instant::now();
        assert!(resigning.resign().await);
        plain.record(next.elected(PROMPT).await.at - resigned);
        resigning = next;
    }
    latencies.print();
    plain.print();

    let mut skipped = Vec::new();
    for (number, observer) in observers.iter_mut().enumerate() {
        observer.leads(history.last_token(), PROMPT).await;
        let who = format!("observer {number}");
        skipped.push(history.was_seen_by(&who, observer.log()));
    }
    for watcher in &mut watchers {
        watcher.saw(&history).await;
    }
    report(format!(
        "{} leaders, in the same order for {OBSERVERS} observers, who skipped {skipped:?} of them",
        history.len()
    ));
    assert_eq!(history.len(), ROUNDS + 1);
    latencies.assert_within(WITHIN, &plain);

    // All at once, those that wait and the one that leads.
    drop((leader, waiting, resigning, observers, watchers));
    site.nothing_is_left().await;
}
