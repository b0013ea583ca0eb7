//! Queue of the acquires of one name at this coordinator.
//!
//! One acquire of a name is in flight at a time, the first one's. A line exists as long as it has an acquire.

use std::collections::VecDeque;

use leasehold_core::{
    command::{Acquire, Caller, Resume},
    id::{OwnerId, Predecessors, WaiterNumber},
    time::StoreTime,
    view::WaiterView,
};

use crate::store::Answer;

/// Acquire to carry out.
#[derive(Clone, Debug)]
pub struct Turn {
    /// The acquire.
    pub acquire: Acquire,
    /// Its caller.
    pub caller: Caller,
}

/// Queued acquire. One that does not wait wants an answer at once if it is not the first.
#[derive(Debug)]
pub struct Place {
    /// The acquire, and its caller.
    pub turn: Turn,
    /// The time since which it is queued.
    pub since: StoreTime,
    /// Its number, if it waits.
    pub number: WaiterNumber,
    /// The sessions that it was resumed from.
    pub predecessors: Predecessors,
    /// The destination of its answer; `Some` until it has been answered.
    pub answer: Option<Answer>,
}

impl Place {
    /// Returns its owner id.
    pub fn owner(&self) -> OwnerId {
        self.turn.acquire.owner
    }

    /// Returns whether it waits.
    pub fn waits(&self) -> bool {
        self.turn.acquire.wait
    }

    /// Returns its view.
    pub fn view(&self) -> WaiterView {
        let Turn { acquire, caller } = &self.turn;
        WaiterView {
            session: acquire.session,
            predecessors: self.predecessors.clone(),
            actor: acquire.actor,
            client_name: acquire.client_name.clone(),
            mode: acquire.mode,
            coordinator: caller.coordinator.clone(),
            since: self.since,
            number: self.number,
        }
    }
}

/// Queue of one name.
#[derive(Debug, Default)]
pub struct Line {
    places: VecDeque<Place>,
    /// The number of the last one that joined.
    last_number: Option<WaiterNumber>,
    /// Whether the first one's acquire is in flight.
    attempting: bool,
    /// Whether the name may have come free since then.
    again: bool,
    /// Whether other coordinators had waiters at the last release.
    pub others_wait: bool,
    /// Whether an acquire is about to begin after a random pause.
    pub draws_lots: bool,
}

impl Line {
    /// Returns whether it is empty and nothing is in flight.
    pub fn is_over(&self) -> bool {
        self.places.is_empty() && !self.attempting
    }

    /// Returns whether an acquire waits and none is in flight, because the name is not free.
    pub fn is_stuck(&self) -> bool {
        !self.attempting && !self.places.is_empty()
    }

    /// Adds an acquire at the end.
    pub fn join(&mut self, turn: Turn, since: StoreTime, answer: Option<Answer>) {
        let number = match self.last_number {
            Some(last) => WaiterNumber::new(last.get() + 1),
            None => WaiterNumber::first_at(since),
        };
        self.last_number = Some(number);
        self.places.push_back(Place {
            turn,
            since,
            number,
            predecessors: Predecessors::default(),
            answer,
        });
    }

    /// Returns the waiter of a number.
    pub fn numbered(&self, number: WaiterNumber) -> Option<&Place> {
        let mut waiting = self.places.iter().filter(|place| place.waits());
        waiting.find(|place| place.number == number)
    }

    /// Returns the first acquire, if it is to begin now, and marks it as in flight. If one is in flight, another try follows.
    pub fn begin(&mut self) -> Option<Turn> {
        if self.attempting {
            self.again = true;
            return None;
        }
        let first = self.places.front()?;
        self.attempting = true;
        Some(first.turn.clone())
    }

    /// Notes that the acquire in flight was blocked. Returns those that do not wait and must be answered, and whether the next
    /// try is to begin.
    pub fn blocked(&mut self) -> (Vec<Place>, bool) {
        self.attempting = false;
        let (waiting, leaving): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut self.places)
            .into_iter()
            .partition(Place::waits);
        self.places = waiting;
        (leaving.into(), std::mem::take(&mut self.again))
    }

    /// Notes that the acquire in flight was granted. Returns its place, unless it has left, and those that do not wait.
    pub fn granted(&mut self, owner: &OwnerId) -> (Option<Place>, Vec<Place>) {
        let place = self.leave(owner);
        let (leaving, _) = self.blocked();
        (place, leaving)
    }

    /// Removes an acquire.
    pub fn leave(&mut self, owner: &OwnerId) -> Option<Place> {
        let at = self.position(owner)?;
        self.places.remove(at)
    }

    /// Gives a place to the stream that resumes, which waits in it under its next owner id; returns `None` if there is no such
    /// place. An acquire in flight for it then belongs to one that has left.
    pub fn take_over(
        &mut self,
        owner: &OwnerId,
        caller: &Caller,
        resume: &Resume,
    ) -> Option<&mut Place> {
        let mut places = self.places.iter_mut();
        let place = places.find(|place| place.owner() == *owner)?;
        let Turn {
            acquire,
            caller: of,
        } = &mut place.turn;
        *of = caller.clone();
        acquire.owner = resume.next;
        place.predecessors = place.predecessors.resumed(acquire.session, resume.session);
        acquire.session = resume.session;
        acquire.client_name = resume.client_name.clone();
        acquire.ttl = resume.ttl;
        acquire.max_hold = resume.bound(acquire.max_hold);
        acquire.wait = true;
        acquire.again = false;
        Some(place)
    }

    /// Returns how many acquires are ahead.
    pub fn position(&self, owner: &OwnerId) -> Option<usize> {
        self.places.iter().position(|place| place.owner() == *owner)
    }

    /// Returns all acquires, in order.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Place> {
        self.places.iter_mut()
    }

    /// Returns all acquires, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Place> + Clone {
        self.places.iter()
    }

    /// Returns the number of acquires.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
}
