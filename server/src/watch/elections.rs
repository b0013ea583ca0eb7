//! Observers of elections.

use std::collections::HashMap;

use leasehold_core::{name::LockName, watch::Leader};
use tokio::sync::{mpsc, watch};

use super::hub::Request;

/// What all observers of an election see.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// 0 until the first state is known; then one more for each change, and two where others may have been missed.
    version: u64,
    leader: Option<Leader>,
}

/// The hub's side of the elections that somebody observes.
#[derive(Debug, Default)]
pub(super) struct Elections {
    elections: HashMap<LockName, Election>,
}

#[derive(Debug)]
struct Election {
    seen: watch::Sender<Seen>,
    /// Changes may have been missed since the last that was seen.
    has_gap: bool,
}

impl Elections {
    /// Adds an observer. If who leads is not known for sure now, it is not told what was known before.
    pub(super) fn add(
        &mut self,
        name: &LockName,
        is_known: bool,
        requests: mpsc::UnboundedSender<Request>,
    ) -> Observer {
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
            requests,
        }
    }

    /// An observer is gone: forgets the election if it was the last. Says whether it was.
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

    /// Tells who leads now, unless that is what was told before and nothing else can have been in between.
    pub(super) fn tell(&mut self, name: &LockName, leader: Option<Leader>) {
        let Some(election) = self.elections.get_mut(name) else {
            return;
        };
        let has_gap = std::mem::take(&mut election.has_gap);
        election.seen.send_if_modified(|seen| {
            let is_same = is_same(seen.leader.as_ref(), leader.as_ref());
            let is_news = seen.version == 0 || has_gap || !is_same;
            if is_news {
                seen.version += if has_gap { 2 } else { 1 };
            }
            // Another stream may have taken the leadership over, which is no news.
            seen.leader = leader;
            is_news
        });
    }

    /// Changes may be missed from here on, until who leads is told again.
    pub(super) fn gap(&mut self) {
        for election in self.elections.values_mut() {
            // Nobody has missed anything who was told nothing yet.
            election.has_gap = election.seen.borrow().version > 0;
        }
    }
}

/// Whether two leaders are the same, in the same term and with the same value.
fn is_same(one: Option<&Leader>, other: Option<&Leader>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.token() == other.token() && one.value() == other.value(),
        (None, None) => true,
        _ => false,
    }
}

/// Who leads, and whether it may have been somebody else since the last was given.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The leader; `None` while there is none.
    pub leader: Option<Leader>,
    /// Whether changes were left out.
    pub skipped: bool,
}

/// An observer of an election: it is told the newest state, however slowly it asks.
#[derive(Debug)]
pub struct Observer {
    name: LockName,
    /// Taken when this is dropped.
    seen: Option<watch::Receiver<Seen>>,
    last: u64,
    /// It has been told nothing yet, so it can't have missed anything.
    is_first: bool,
    requests: mpsc::UnboundedSender<Request>,
}

impl Observer {
    /// The first state, or the next. `None` when the coordinator stops.
    ///
    /// # Cancel safety
    ///
    /// A state is given, or it or a newer one is given later.
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
        // First, so that the hub finds nobody left.
        self.seen = None;
        let _ = self.requests.send(Request::Unobserve {
            name: self.name.clone(),
        });
    }
}
