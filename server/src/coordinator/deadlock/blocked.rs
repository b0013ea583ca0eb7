//! Registry of the actors that wait here while they hold something.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    hash::RandomState,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use leasehold_core::{
    deadlock::{
        BlockedWait, Deadlock, Omissions, Publication,
        share::{self, Candidate, Omitted},
    },
    id::{Actor, OwnerId, SessionId},
    name::LockName,
    session::RegistryEvent,
};
use tokio::{sync::Notify, time::Instant};

use super::super::inbox::{Inbox, InboxEvent};

/// Time for which an actor has to wait before it is published. Most waits are over sooner.
const PATIENCE: Duration = Duration::from_millis(100);
/// Most sessions that [`Omissions`] names. Beyond that, they concern everybody.
const MAX_SESSIONS: usize = 1024;

/// The actors of this coordinator's sessions that wait while they hold something. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Blocked {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    sessions: Mutex<HashMap<SessionId, OfSession>>,
    /// Somebody was added.
    added: Notify,
}

#[derive(Debug)]
struct OfSession {
    caller: Arc<str>,
    actors: HashMap<Actor, HashMap<OwnerId, Entry>>,
}

#[derive(Debug)]
struct Entry {
    name: LockName,
    since: Instant,
    inbox: Arc<Inbox>,
}

/// Keeps a wait in the registry for as long as it lives.
#[derive(Debug)]
pub struct BlockedHere {
    blocked: Blocked,
    session: SessionId,
    actor: Actor,
    ticket: OwnerId,
}

impl Blocked {
    /// Adds a wait of an actor that holds something. `caller` tells whose session it is, and `inbox` hears of a deadlock.
    pub fn add(&self, caller: &Arc<str>, wait: BlockedWait, inbox: Arc<Inbox>) -> BlockedHere {
        let BlockedWait {
            session,
            actor,
            ticket,
            name,
        } = wait;
        let entry = Entry {
            name,
            since: Instant::now(),
            inbox,
        };
        {
            let mut sessions = self.sessions();
            let of_session = sessions.entry(session).or_insert_with(|| OfSession {
                caller: Arc::clone(caller),
                actors: HashMap::new(),
            });
            let waits = of_session.actors.entry(actor).or_default();
            waits.insert(ticket, entry);
        }
        self.shared.added.notify_one();
        BlockedHere {
            blocked: self.clone(),
            session,
            actor,
            ticket,
        }
    }

    /// Waits until there is at least one wait.
    pub(super) async fn any(&self) {
        while self.sessions().is_empty() {
            self.shared.added.notified().await;
        }
    }

    /// Chooses what to publish, within the bounds of [`share`]: of each actor that has waited for a while all waits, or none.
    /// Takes time in proportion to all waits, so that it does not belong on a thread of the runtime.
    pub(super) fn publication(&self, lot: &RandomState) -> (Publication, Omitted) {
        let mut candidates = Vec::new();
        let mut several = HashSet::new();
        for (session, of_session) in &*self.sessions() {
            for (actor, waits) in &of_session.actors {
                let who = (*session, *actor);
                if waits.len() > 1 {
                    several.insert(who);
                }
                if waits.values().any(|wait| wait.since.elapsed() >= PATIENCE) {
                    let names = waits.values().map(|wait| wait.name.as_str().len());
                    candidates.push(Candidate {
                        who,
                        caller: Arc::clone(&of_session.caller),
                        bytes: names.map(share::bytes).sum(),
                    });
                }
            }
        }
        let (chosen, omitted) = share::choose(candidates, lot);
        let mut publication = Publication::default();
        {
            let sessions = self.sessions();
            for who @ (session, actor) in chosen {
                // It may have ended meanwhile.
                let of_session = sessions.get(&session);
                let waits = of_session.and_then(|of_session| of_session.actors.get(&actor));
                let waits = waits
                    .into_iter()
                    .flatten()
                    .map(|(ticket, wait)| BlockedWait {
                        session,
                        actor,
                        ticket: *ticket,
                        name: wait.name.clone(),
                    });
                let first = publication.waits.len();
                publication.waits.extend(waits);
                // In an order that does not change while they wait.
                publication.waits[first..].sort_unstable_by_key(|wait| wait.ticket);
                several.remove(&who);
            }
        }
        let sessions: BTreeSet<_> = several.into_iter().map(|(session, _)| session).collect();
        publication.omissions = if sessions.len() > MAX_SESSIONS {
            Omissions {
                sessions: BTreeSet::new(),
                anybody: true,
            }
        } else {
            Omissions {
                sessions,
                anybody: false,
            }
        };
        (publication, omitted)
    }

    /// Ends a wait because of a deadlock. Returns whether it is one of this coordinator's.
    pub(super) fn end(&self, deadlock: &Deadlock) -> bool {
        let BlockedWait {
            session,
            actor,
            ticket,
            ..
        } = &deadlock.victim;
        let entry = self.remove(*session, *actor, ticket);
        let Some(entry) = entry else {
            return false;
        };
        let event = RegistryEvent::Deadlocked(Box::new(deadlock.clone()));
        entry.inbox.put(InboxEvent::Registry(*ticket, event));
        true
    }

    fn remove(&self, session: SessionId, actor: Actor, ticket: &OwnerId) -> Option<Entry> {
        let mut sessions = self.sessions();
        let of_session = sessions.get_mut(&session)?;
        let waits = of_session.actors.get_mut(&actor)?;
        let entry = waits.remove(ticket)?;
        if waits.is_empty() {
            of_session.actors.remove(&actor);
        }
        if of_session.actors.is_empty() {
            sessions.remove(&session);
        }
        Some(entry)
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<SessionId, OfSession>> {
        // A panic elsewhere can't leave the map torn: each use is one insert, removal or look.
        self.shared
            .sessions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for BlockedHere {
    fn drop(&mut self) {
        self.blocked.remove(self.session, self.actor, &self.ticket);
    }
}
