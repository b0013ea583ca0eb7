//! Table of the actors that wait at one coordinator while they hold something.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
    time::Duration,
};

use crate::{
    id::{Actor, OwnerId, SessionId},
    name::LockName,
    time::Moment,
};

use super::{
    BlockedWait, Omissions, Publication,
    share::{self, Candidate},
};

/// Time for which an actor has to wait before it is published. Most waits are over sooner.
const PATIENCE: Duration = Duration::from_millis(100);
/// Most sessions that [`Omissions`] names. Beyond that, they concern everybody.
const MAX_SESSIONS: usize = 1024;

/// Waits of the actors of a coordinator's sessions that hold something meanwhile.
#[derive(Debug, Default)]
pub struct BlockedWaits {
    /// By actor and ticket, so that their order does not change while the actor waits.
    waits: BTreeMap<((SessionId, Actor), OwnerId), Wait>,
}

#[derive(Debug)]
struct Wait {
    name: LockName,
    caller: Arc<str>,
    since: Moment,
}

impl BlockedWaits {
    /// Adds a wait of one of this caller's sessions.
    pub fn add(&mut self, caller: &Arc<str>, wait: &BlockedWait, now: Moment) {
        let added = Wait {
            name: wait.name.clone(),
            caller: Arc::clone(caller),
            since: now,
        };
        let who = (wait.session, wait.actor);
        self.waits.insert((who, wait.ticket), added);
    }

    /// Removes a wait. Returns whether it was in the table.
    pub fn remove(&mut self, wait: &BlockedWait) -> bool {
        let who = (wait.session, wait.actor);
        self.waits.remove(&(who, wait.ticket)).is_some()
    }

    /// Returns whether there are no waits.
    pub fn is_empty(&self) -> bool {
        self.waits.is_empty()
    }

    /// Returns the actors that have waited for a while.
    pub fn candidates(&self, now: Moment) -> Vec<Candidate> {
        let has_lasted = |(_, wait): &(_, &Wait)| wait.since.until(now) >= PATIENCE;
        let all: Vec<_> = self.waits.iter().collect();
        all.chunk_by(|one, other| one.0.0 == other.0.0)
            .filter(|waits| waits.iter().any(has_lasted))
            .map(|waits| {
                let names = waits.iter().map(|(_, wait)| wait.name.as_str().len());
                let ((who, _), first) = waits[0];
                Candidate {
                    who: *who,
                    caller: Arc::clone(&first.caller),
                    bytes: names.map(share::bytes).sum(),
                }
            })
            .collect()
    }

    /// Returns all waits of the chosen actors, in this order, and the omissions among the others.
    pub fn publication(&self, chosen: &[(SessionId, Actor)]) -> Publication {
        let [first, last] = [0, u8::MAX].map(|byte| OwnerId::from_bytes([byte; 16]));
        // The waits of some may have ended since they were chosen.
        let waits = chosen
            .iter()
            .flat_map(|who| self.waits.range((*who, first)..=(*who, last)))
            .map(|(((session, actor), ticket), wait)| BlockedWait {
                session: *session,
                actor: *actor,
                ticket: *ticket,
                name: wait.name.clone(),
            });
        let chosen: HashSet<_> = chosen.iter().collect();
        let tickets: Vec<_> = self.waits.keys().collect();
        let sessions: BTreeSet<_> = tickets
            .chunk_by(|one, other| one.0 == other.0)
            // An actor that waits for one name alone hides no way on.
            .filter(|of_actor| of_actor.len() > 1 && !chosen.contains(&of_actor[0].0))
            .map(|of_actor| of_actor[0].0.0)
            .collect();
        let anybody = sessions.len() > MAX_SESSIONS;
        Publication {
            waits: waits.collect(),
            omissions: Omissions {
                sessions: if anybody { BTreeSet::new() } else { sessions },
                anybody,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Moment = Moment::from_micros(0);

    fn session(number: u16) -> SessionId {
        let mut bytes = [0; 16];
        bytes[..2].copy_from_slice(&number.to_be_bytes());
        SessionId::from_bytes(bytes)
    }

    fn wait(of: u16, ticket: u8) -> BlockedWait {
        BlockedWait {
            session: session(of),
            actor: Actor::new(1),
            ticket: OwnerId::from_bytes([ticket; 16]),
            name: LockName::parse(&format!("name {ticket}")).unwrap(),
        }
    }

    fn table(waits: impl IntoIterator<Item = BlockedWait>) -> BlockedWaits {
        let mut table = BlockedWaits::default();
        let caller = Arc::from("caller");
        for wait in waits {
            table.add(&caller, &wait, START);
        }
        table
    }

    #[test]
    fn an_actor_is_a_candidate_with_all_of_its_waits_once_one_of_them_has_lasted() {
        let mut table = table([wait(1, 1)]);
        let now = START.after(PATIENCE);
        table.add(&Arc::from("caller"), &wait(1, 2), now);
        table.add(&Arc::from("caller"), &wait(2, 3), now);
        assert_eq!(table.candidates(START.after(PATIENCE / 2)).len(), 0);
        let candidates = table.candidates(now);
        let who = (session(1), Actor::new(1));
        assert_eq!((candidates.len(), candidates[0].who), (1, who));
        assert_eq!(candidates[0].bytes, 2 * share::bytes("name 1".len()));
        let published = table.publication(&[who]);
        assert_eq!(published.waits, [wait(1, 1), wait(1, 2)]);
        assert!(published.omissions.is_empty());
    }

    #[test]
    fn an_actor_leaves_the_table_with_the_last_of_its_waits() {
        let mut table = table([wait(1, 2), wait(1, 1)]);
        assert!(table.remove(&wait(1, 1)));
        assert!(!table.remove(&wait(1, 1)) && !table.remove(&wait(2, 2)));
        let who = (session(1), Actor::new(1));
        assert_eq!(table.publication(&[who]).waits, [wait(1, 2)]);
        assert!(table.remove(&wait(1, 2)) && table.is_empty());
        assert_eq!(table.publication(&[who]), Publication::default());
    }

    #[test]
    fn omissions_name_the_sessions_of_actors_with_several_waits_and_beyond_1024_concern_everybody()
    {
        let two = |of: u16| [wait(of, 1), wait(of, 2)];
        let mut table = table((0..1024).flat_map(two).chain([wait(2000, 1)]));
        let omissions = table.publication(&[]).omissions;
        let all: BTreeSet<_> = (0..1024).map(session).collect();
        assert_eq!((omissions.sessions, omissions.anybody), (all, false));
        let caller = Arc::from("caller");
        for wait in two(1024) {
            table.add(&caller, &wait, START);
        }
        let omissions = table.publication(&[]).omissions;
        assert_eq!(omissions.sessions, BTreeSet::new());
        assert!(omissions.anybody);
        let omissions = table.publication(&[(session(7), Actor::new(1))]).omissions;
        assert_eq!((omissions.sessions.len(), omissions.anybody), (1024, false));
    }
}
