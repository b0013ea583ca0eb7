//! Observers of elections.

use std::collections::HashMap;

use leasehold_core::{
    name::LockName,
    planted::{Fault, is_planted},
    watch::Leader,
};
use tokio::sync::{mpsc, watch};

use super::signal::Signal;

/// State that all observers of an election see.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// 0 until the first state is known; then one more for each change, and two if other changes may have been missed.
    version: u64,
    leader: Option<Leader>,
}

/// The hub's side of the observed elections.
#[derive(Debug)]
pub(super) struct Elections {
    elections: HashMap<LockName, Election>,
    /// The channel by which observers reach the hub.
    signals: mpsc::UnboundedSender<Signal>,
}

#[derive(Debug)]
struct Election {
    seen: watch::Sender<Seen>,
    /// Whether changes may have been missed since the last known one.
    has_gap: bool,
}

impl Elections {
    pub(super) fn new(signals: mpsc::UnboundedSender<Signal>) -> Self {
        Self {
            elections: HashMap::new(),
            signals,
        }
    }

    /// Adds an observer. While the leader is uncertain, the observer does not receive the last known one.
    pub(super) fn add(&mut self, name: &LockName, is_known: bool) -> Observer {
        let election = self
            .elections
            .entry(name.clone())
            .or_insert_with(|| Election {
                seen: watch::Sender::new(Seen::default()),
                has_gap: false,
            });
        let version = election.seen.borrow().version;
        Observer {
            name: name.clone(),
            seen: Some(election.seen.subscribe()),
            last: if is_known { 0 } else { version },
            is_first: true,
            signals: self.signals.clone(),
        }
    }

    /// Forgets the election if its last observer is gone. Returns whether it was the last.
    pub(super) fn forget_if_unobserved(&mut self, name: &LockName) -> bool {
        let is_unobserved = self
            .elections
            .get(name)
            .is_some_and(|election| election.seen.is_closed());
        if is_unobserved {
            self.elections.remove(name);
        }
        is_unobserved
    }

    pub(super) fn contains(&self, name: &LockName) -> bool {
        self.elections.contains_key(name)
    }

    /// Publishes the present leader, unless it is the last published one and no other can have been in between.
    pub(super) fn tell(&mut self, name: &LockName, leader: Option<Leader>) {
        let Some(election) = self.elections.get_mut(name) else {
            return;
        };
        if is_planted(Fault::TermKept) && leader.is_none() {
            return;
        }
        let has_gap = std::mem::take(&mut election.has_gap);
        election.seen.send_if_modified(|seen| {
            let is_same = is_same(seen.leader.as_ref(), leader.as_ref());
            let is_news = seen.version == 0 || has_gap || !is_same;
            if is_news {
                seen.version += if has_gap { 2 } else { 1 };
            }
            // Another stream may have resumed the leadership, which is no change for observers.
            seen.leader = leader;
            is_news
        });
    }

    /// Notes that changes may be missed from here on, until the leader is published again.
    pub(super) fn gap(&mut self) {
        for election in self.elections.values_mut() {
            // An observer that has received no state yet has missed nothing.
            election.has_gap = election.seen.borrow().version > 0;
        }
    }
}

/// Returns whether two leaders are the same, in the same term and with the same value.
fn is_same(one: Option<&Leader>, other: Option<&Leader>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.token() == other.token() && one.value() == other.value(),
        (None, None) => true,
        _ => false,
    }
}

/// Leader, and whether there may have been others since the last one returned.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The leader; `None` while there is none.
    pub leader: Option<Leader>,
    /// Whether changes were left out.
    pub skipped: bool,
}

/// Observer of an election: receives the newest state, however slowly it asks.
#[derive(Debug)]
pub struct Observer {
    name: LockName,
    /// Taken when this is dropped.
    seen: Option<watch::Receiver<Seen>>,
    last: u64,
    /// Whether it has received no state yet, so that it can't have missed any.
    is_first: bool,
    signals: mpsc::UnboundedSender<Signal>,
}

impl Observer {
    /// Waits for the first state, or the next. Returns `None` when the coordinator stops.
    ///
    /// # Cancel safety
    ///
    /// If it is cancelled, a later call returns the same state or a newer one.
    pub async fn next(&mut self) -> Option<Observed> {
        let seen = self.seen.as_mut()?;
        let seen = seen.wait_for(|seen| seen.version > self.last).await.ok()?;
        let is_first = std::mem::take(&mut self.is_first);
        let skipped = !is_first && seen.version > self.last + 1;
        self.last = seen.version;
        Some(Observed {
            leader: seen.leader.clone(),
            skipped,
        })
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        // First, so that the hub finds no observer left.
        self.seen = None;
        let _ = self.signals.send(Signal::Unobserve {
            name: self.name.clone(),
        });
    }
}
