//! Deadlocks end: which actors wait here while they hold something, and the task that looks at what they wait for.
//!
//! Nothing of this is in the way of a lock that is free, or of one that is waited for by an actor that holds nothing. While
//! an actor waits that does hold something, the coordinators tell one another of such waits every 300 ms, read who
//! holds and who waits for the names in question, and compare with what they saw the time before. What makes a deadlock, and
//! which wait is to end for it, is in `leasehold_core::deadlock`; all coordinators come to the same, and each ends its own.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use leasehold_core::{
    command::{Op, Reply},
    deadlock::{BlockedWait, Deadlock, Pass, find},
    id::OwnerId,
    name::LockName,
};
use leasehold_store::{LockStore, StoreError};
use tokio::{
    sync::{Notify, oneshot},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::Coordinator;

/// How often to look. A deadlock is found by the second look after it closed.
const LOOK_EVERY: Duration = Duration::from_millis(300);
/// How long an actor has waited before it is looked at: most waits are over sooner.
const PATIENCE: Duration = Duration::from_millis(100);
/// Most names that are looked at in one go. Waits for others count as about to end.
const MAX_NAMES: usize = 4096;

/// The actors of this coordinator's sessions that wait while they hold something. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Blocked {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    waits: Mutex<HashMap<OwnerId, Entry>>,
    /// Somebody was added.
    added: Notify,
}

#[derive(Debug)]
struct Entry {
    wait: BlockedWait,
    since: Instant,
    deadlock: oneshot::Sender<Box<Deadlock>>,
}

/// One of them, for as long as this lives.
#[derive(Debug)]
pub struct BlockedHere {
    blocked: Blocked,
    ticket: OwnerId,
    deadlock: oneshot::Receiver<Box<Deadlock>>,
}

impl Blocked {
    /// Adds an actor that begins to wait.
    pub fn add(&self, wait: BlockedWait) -> BlockedHere {
        let (sender, deadlock) = oneshot::channel();
        let ticket = wait.ticket;
        let entry = Entry {
            wait,
            since: Instant::now(),
            deadlock: sender,
        };
        self.waits().insert(ticket, entry);
        self.shared.added.notify_one();
        BlockedHere {
            blocked: self.clone(),
            ticket,
            deadlock,
        }
    }

    /// Waits until there is one.
    async fn any(&self) {
        while self.waits().is_empty() {
            self.shared.added.notified().await;
        }
    }

    /// Those that have waited for a while.
    fn patient(&self) -> Vec<BlockedWait> {
        self.waits()
            .values()
            .filter(|entry| entry.since.elapsed() >= PATIENCE)
            .map(|entry| entry.wait.clone())
            .collect()
    }

    /// Ends a wait, if it is one of ours.
    fn end(&self, ticket: &OwnerId, deadlock: Box<Deadlock>) -> bool {
        let entry = self.waits().remove(ticket);
        entry.is_some_and(|entry| entry.deadlock.send(deadlock).is_ok())
    }

    fn waits(&self) -> MutexGuard<'_, HashMap<OwnerId, Entry>> {
        // A panic elsewhere can't leave the map torn: each use is one insert, removal or look.
        self.shared
            .waits
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl BlockedHere {
    /// Completes when the wait is to end because of a deadlock, and tells of it.
    pub async fn deadlocked(&mut self) -> Box<Deadlock> {
        match (&mut self.deadlock).await {
            Ok(deadlock) => deadlock,
            Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for BlockedHere {
    fn drop(&mut self) {
        self.blocked.waits().remove(&self.ticket);
    }
}

/// Looks for deadlocks until it is stopped.
pub async fn run(coordinator: Coordinator, stop: CancellationToken) {
    stop.run_until_cancelled(async {
        let mut before = None;
        let mut told = false;
        loop {
            if !told {
                coordinator.blocked().any().await;
            }
            tokio::time::sleep(LOOK_EVERY).await;
            let mine = coordinator.blocked().patient();
            if mine.is_empty() && !told {
                continue;
            }
            told = !mine.is_empty();
            // Where the store does not answer, two looks have to be had again.
            let now = look(&coordinator, mine).await.ok();
            if let (Some(before), Some(now)) = (&before, &now) {
                end_deadlocks(&coordinator, before, now);
            }
            before = now.filter(|_| told);
        }
    })
    .await;
}

/// One complete look at what is waited for.
async fn look(coordinator: &Coordinator, mine: Vec<BlockedWait>) -> Result<Pass, StoreError> {
    let is_last = mine.is_empty();
    let blocked = coordinator.store().exchange(mine).await?;
    if is_last {
        return Ok(Pass::default());
    }
    let names: BTreeSet<LockName> = blocked.iter().map(|wait| wait.name.clone()).collect();
    let names: Vec<LockName> = names.into_iter().take(MAX_NAMES).collect();
    let commands = names
        .iter()
        .map(|name| coordinator.command(name.clone(), Op::Edges))
        .collect();
    let results = coordinator.store().execute_all(commands).await;
    // A name that could not be read counts as about to come free.
    let edges = names.into_iter().zip(results).filter_map(|(name, result)| {
        let Reply::Edges(edges) = result.ok()?.executed.reply else {
            return None;
        };
        Some((name, *edges))
    });
    Ok(Pass {
        names: edges.collect(),
        blocked,
    })
}

fn end_deadlocks(coordinator: &Coordinator, before: &Pass, now: &Pass) {
    for deadlock in find(before, now) {
        let told = Box::new(deadlock.clone());
        if coordinator.blocked().end(&deadlock.victim.ticket, told) {
            coordinator.metrics().deadlocks.inc();
            tracing::info!(%deadlock, "a deadlock was ended");
        }
    }
}
