//! Which actors wait for each other in a circle, and whose wait is to end so that the others go on.
//!
//! # What a deadlock is
//!
//! A set of actors none of whom can go on whatever the rest of the world does. It is found by reduction: an actor that waits
//! for nothing is taken to release everything; so are those that nothing is known of, among them actor 0, holders without a
//! session, and whoever holds or waits where not all is known. Whoever is at the head of a queue and fits then goes on, and
//! releases everything likewise, until nobody does. Who is left is stuck. An actor that waits for several names goes on with
//! the first that it gets, and is taken to give its other waits up.
//!
//! A waiter that holds nothing, or of which that is all that is known, is in the way of those behind it like any other, but
//! it is never accused: only a wait that its coordinator published, as a [`BlockedWait`], is.
//!
//! # Why two passes
//!
//! A pass reads one name after the other, and the world does not stand still meanwhile: an edge that was read early may be
//! gone when another one comes about, and a circle of the two was never there. So only what is in two passes counts, of which
//! the second began after the first had ended. Let *T* be a moment between them.
//!
//! - No owner id is granted twice, and none comes back once it was released or lost. A hold that both passes saw was there
//!   all the time between, *T* included. Its mode can only have become weaker, by a downgrade; the later one counts.
//! - A ticket that has left its queue comes back, if ever, behind the others and with another time of joining. So a wait
//!   that both passes saw with the same ticket and time was in its place all the time between, *T* included, and two of
//!   them were in the same order.
//! - An actor any of whose waits is not in both passes is taken to wait for nothing.
//! - A coordinator publishes an actor with all of its waits or not at all. When a bound makes the coordinator leave out an
//!   actor that has several waits, it publishes the actor's session in [`Omissions`]. The actors of that session that are not
//!   published are then taken to wait for nothing, because a wait that nobody has seen may let them go on.
//!
//! So everything that counts was there at *T*, all of it together. The world at *T* may have had more in it, other holds and
//! other waiters. They could only have kept more actors from going on. Hence who is stuck by what counts was stuck at *T*,
//! and since a stuck actor does nothing, is so until somebody gives a wait up.
//!
//! # Whose wait ends
//!
//! Who is in whose way among the stuck makes a graph. Its *knots* are the sets in which everybody is, by some way round, in
//! everybody's way, and nobody else in anybody's: each is a deadlock of its own, and stays one until one of its own waits
//! ends. Those who only wait for a knot are not accused: they go on after it. Of a knot, the youngest wait ends whose end
//! lets another actor of the knot go on. Where no single one does (each waits for two readers, say), it is the youngest whose
//! actor holds what somebody waits for. Who is still stuck after that, even if the accused release everything, is in further
//! knots, and so on until nobody is. An accused whose end let nobody go on by itself is spared after all if those of the others
//! are enough.
//!
//! From when the last of it has begun to wait, a knot stays the same while nobody in it gives up: who is in a waiter's way was
//! so when it joined. So coordinators that look at different times see the same one, and come to the same wait.

mod accuse;
mod cycle;
mod knots;
mod standing;
mod words;
mod world;

use std::collections::{BTreeSet, HashMap};

use crate::{
    id::{Actor, OwnerId, SessionId},
    name::{ClientName, LockName},
    view::NameEdges,
};

/// A wait of an actor that holds something: what each coordinator publishes for the sessions that it serves, all of them
/// and never of actor 0.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BlockedWait {
    /// The actor's session.
    pub session: SessionId,
    /// The actor.
    pub actor: Actor,
    /// Its place in the queue. Secret.
    pub ticket: OwnerId,
    /// The name that it waits for.
    pub name: LockName,
}

/// The blocked waits that one coordinator publishes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Publication {
    /// The waits of its blocked actors: of each actor all of them, or none. What matters most comes first.
    pub waits: Vec<BlockedWait>,
    /// What bounds made it leave out.
    pub omissions: Omissions,
}

impl Publication {
    /// A publication that cannot be read, for example because a newer version of the coordinator wrote it.
    #[must_use]
    pub fn unreadable() -> Self {
        Self {
            waits: Vec::new(),
            omissions: Omissions {
                sessions: BTreeSet::new(),
                anybody: true,
            },
        }
    }

    /// Returns whether it says nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waits.is_empty() && self.omissions.is_empty()
    }
}

/// Actors that wait for several names at a time and whose waits are not all published.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Omissions {
    /// The sessions of such actors.
    pub sessions: BTreeSet<SessionId>,
    /// Whether there may be such actors in any session.
    pub anybody: bool,
}

impl Omissions {
    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty() && !self.anybody
    }

    /// Adds those of another coordinator.
    pub fn add(&mut self, other: &Self) {
        self.sessions.extend(&other.sessions);
        self.anybody |= other.anybody;
    }

    /// Returns whether an actor of this session that is not published may wait for more than can be seen.
    pub(super) fn concern(&self, session: SessionId) -> bool {
        self.anybody || self.sessions.contains(&session)
    }
}

/// One complete look: who waits, and then the edges of the names that they wait for, read one after the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pass {
    /// What all coordinators have published.
    pub blocked: Vec<BlockedWait>,
    /// What bounds made them leave out.
    pub omissions: Omissions,
    /// The edges of every name among them that could be read. Of other names nothing is known.
    pub names: HashMap<LockName, NameEdges>,
}

/// Actors that are in each other's way, and the wait that has to end.
///
/// Its `Display` is for people: it names the actors and the locks of the circle, the accused actor first, at most eight of
/// them, and neither owner ids nor tickets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// The wait that is to fail.
    pub victim: BlockedWait,
    /// A shortest way from the victim round to itself: each waits for something because of the next one, and the last one
    /// because of the first. Never empty.
    pub cycle: Vec<Step>,
}

/// One that waits in a circle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its session; `None` for a unary call.
    pub session: Option<SessionId>,
    /// Its client's name.
    pub client_name: ClientName,
    /// Which actor it is; [`Actor::NOBODY`] if that is not known.
    pub actor: Actor,
    /// Whether it is known to hold something. One that is not is only in the way of those behind it in a queue.
    pub holds: bool,
    /// What it waits for.
    pub name: LockName,
    /// How the next one is in its way.
    pub because: Because,
}

/// How one is in the way of another that waits for a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Because {
    /// It holds the name.
    Holds,
    /// It is ahead in the name's queue.
    IsAhead,
}

/// The deadlocks that there were between two passes, those of other coordinators' sessions too. `now` must have begun after
/// `before` had ended.
///
/// All victims together let everybody go on. One after the other, in this order, each is still stuck when its turn comes. The
/// same passes give the same answer, whatever the order of `blocked` and of the holders in them.
///
/// Takes time in proportion to the edges, once for all deadlocks that are independent of each other; once more for each that
/// waits for another one, and for each victim whose end alone is not enough.
pub fn find(before: &Pass, now: &Pass) -> Vec<Deadlock> {
    let mut world = standing::both(before, now);
    world.settle();
    accuse::accuse(&world)
}

/// The waits of all actors that were stuck between two passes, of those too that only wait for a deadlock of others; ordered
/// by name, and within a name as they are queued. `now` must have begun after `before` had ended.
pub fn stuck(before: &Pass, now: &Pass) -> Vec<BlockedWait> {
    let mut world = standing::both(before, now);
    world.settle();
    world
        .left()
        .filter_map(|wait| world.blocked(wait))
        .collect()
}
