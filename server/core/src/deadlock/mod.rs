//! Detector of deadlocks: finds actors that wait for each other in a circle, and chooses the wait to abort.
//!
//! # Deadlocks
//!
//! A deadlock is a set of actors none of which can go on, whatever the rest of the world does. The detector finds it by
//! reduction. It assumes that an actor that waits for nothing releases everything. It assumes the same of actors it knows
//! nothing of: actor 0, holders without a session, and any actor of which it does not see all holds and waits. A waiter
//! at the head of a queue that fits then goes on and releases everything likewise, until no waiter can. The actors that
//! remain are stuck. An actor that waits for several names goes on with the first that it gets, and gives up its other
//! waits.
//!
//! A waiter that holds nothing blocks the waiters behind it like any other, but is never a victim: a victim's wait is one
//! that its coordinator published, as a [`BlockedWait`].
//!
//! # Two passes
//!
//! A pass reads one name after the other while the world changes: an edge that was read early may be gone when another
//! one appears, and a circle of the two never existed. So only edges that two passes saw count, where the second pass
//! began after the first had ended. Let *T* be a moment between them.
//!
//! - The store grants no owner id twice, and none comes back after it was released or lost. A hold that both passes saw
//!   stood all the time between, *T* included. Its mode can only have become weaker, by a downgrade, or of
//!   fewer permits; the later one counts.
//! - A ticket that has left its queue can only come back behind the others, with a later time of joining. So a wait that
//!   both passes saw with the same ticket and time kept its place all the time between, *T* included, and two such waits
//!   kept their order.
//! - The limit of a semaphore is the one that the later pass saw. Waiters that a greater one before it let go on are no longer in
//!   the queue. A later change of the limit might let a stuck actor go on: the detector does not wait for one.
//! - An actor with a wait that only one pass saw is assumed to wait for nothing.
//! - A coordinator publishes an actor with all of its waits or not at all. When a bound makes the coordinator leave out an
//!   actor that has several waits, it publishes the actor's session in [`Omissions`]. The detector assumes that the actors
//!   of that session that are not published wait for nothing, because a wait that it does not see may let them go on.
//!
//! So all the edges that count existed at *T*, together. The world at *T* may have contained more holds and waiters, but
//! these could only have kept more actors from going on. Hence an actor that is stuck by the edges that count was stuck
//! at *T*, and because a stuck actor does nothing, it stays stuck until some wait is given up.
//!
//! # Victims
//!
//! The stuck actors that block each other form a graph. Its *knots* are the sets in which every actor blocks every other,
//! directly or not, and no actor outside: each is a deadlock of its own until one of its own waits ends. An actor that
//! only waits for a knot is no victim: it goes on after the knot. The victim of a knot is the youngest wait whose end lets
//! another actor of the knot go on. If no single wait does (for example because each waits for two readers), it is the
//! youngest wait whose actor holds something that another waits for. The actors that remain stuck even if all victims
//! release everything form further knots, and so on until none is stuck. At the end, a victim whose end let no actor go on
//! by itself is spared if the ends of the others are enough.
//!
//! Once its last wait has begun, a knot stays the same until a wait in it ends, because the actors that block a waiter
//! blocked it when it joined. So coordinators that look at different times find the same knot, and choose the same
//! victim.
//!
//! # Bounds
//!
//! Everything is bounded: what sessions, callers and coordinators publish ([`share`]), and what a pass reads (`reading`). A bound
//! never causes a false accusation, because whatever the detector does not see counts as able to go on. A bound can only delay
//! the detection of deadlocks among clients that exceed it.

pub mod blocked;
mod cycle;
pub mod detector;
mod display;
mod reading;
mod scc;
pub mod share;
mod standing;
mod victim;
mod wait_graph;

use std::collections::{BTreeSet, HashMap};

use crate::{
    id::{Actor, OwnerId, SessionId},
    name::{ClientName, LockName},
    view::NameEdges,
};

/// Wait of an actor that holds something. Each coordinator publishes these for the sessions that it serves, except those of
/// actor 0.
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

/// Blocked waits that one coordinator publishes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Publication {
    /// The waits of its blocked actors: of each actor all of them, or none. The most important come first.
    pub waits: Vec<BlockedWait>,
    /// The actors that bounds made it leave out.
    pub omissions: Omissions,
}

impl Publication {
    /// Returns what stands for a publication that cannot be read, for example one of a newer version.
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

    /// Returns whether it has neither waits nor omissions.
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

    /// Adds the omissions of another coordinator.
    pub fn add(&mut self, other: &Self) {
        self.sessions.extend(&other.sessions);
        self.anybody |= other.anybody;
    }

    /// Returns whether an unpublished actor of this session may have waits that the detector does not see.
    pub(super) fn concern(&self, session: SessionId) -> bool {
        self.anybody || self.sessions.contains(&session)
    }
}

/// Pass of the detector: the blocked waits, and then the edges of their names, read one after the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pass {
    /// The waits that all coordinators have published.
    pub blocked: Vec<BlockedWait>,
    /// The actors that bounds made them leave out.
    pub omissions: Omissions,
    /// The edges of their names, as far as they could be read. Nothing is known of other names.
    pub names: HashMap<LockName, NameEdges>,
}

/// Deadlock: actors that block each other, and the wait to abort.
///
/// Its `Display` is for people: it names the actors and locks of the circle, the victim first, at most eight of them, and
/// neither owner ids nor tickets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Deadlock {
    /// The wait to abort.
    pub victim: BlockedWait,
    /// A shortest cycle from the victim to itself: the next actor blocks each wait, and the first actor the last wait. Never
    /// empty.
    pub cycle: Vec<Step>,
}

/// Actor that waits in a circle.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Step {
    /// Its session; `None` for a unary call.
    pub session: Option<SessionId>,
    /// Its client's name.
    pub client_name: ClientName,
    /// The actor; [`Actor::NOBODY`] if it is not known.
    pub actor: Actor,
    /// Whether it is known to hold something. Otherwise it blocks only the waiters behind it in a queue.
    pub holds: bool,
    /// The name that it waits for.
    pub name: LockName,
    /// The way in which the next actor blocks it.
    pub because: Because,
}

/// Reason why an actor blocks another that waits for a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Because {
    /// It holds the name.
    Holds,
    /// It is ahead in the name's queue.
    IsAhead,
}

/// Returns the deadlocks that existed between two passes, those of other coordinators' sessions too. `now` must have begun
/// after `before` had ended.
///
/// The ends of all victims let all actors go on. If they end one after the other, in this order, each is still stuck when its
/// turn comes. The same passes give the same answer, whatever the order of `blocked` and of the holders in them.
///
/// Takes time proportional to the edges, once for all independent deadlocks; once more for each deadlock that waits for another
/// one, and for each victim whose end alone is not enough.
pub fn find(before: &Pass, now: &Pass) -> Vec<Deadlock> {
    let mut graph = standing::both(before, now);
    graph.settle();
    victim::choose(&graph)
}

/// Returns the waits of all actors that were stuck between two passes, including those that only wait for a deadlock of
/// others; ordered by name, and within a name as they are queued. `now` must have begun after `before` had ended.
pub fn stuck(before: &Pass, now: &Pass) -> Vec<BlockedWait> {
    let mut graph = standing::both(before, now);
    graph.settle();
    graph
        .left()
        .filter_map(|wait| graph.blocked(wait))
        .collect()
}
