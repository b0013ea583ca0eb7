//! Queue of the acquires of one name at this coordinator.
//!
//! One acquire of a name is in flight at a time, the first one's. A line exists as long as it has an acquire.

use std::collections::VecDeque;

use leasehold_core::id::OwnerId;

/// Queued acquire.
#[derive(Debug)]
pub struct Place<Asked> {
    /// Its owner id.
    pub owner: OwnerId,
    /// Whether it waits, or wants an answer at once if it is not the first.
    pub waits: bool,
    /// Its request.
    pub asked: Asked,
}

/// Queue of one name.
#[derive(Debug)]
pub struct Line<Asked> {
    places: VecDeque<Place<Asked>>,
    /// Whether the first one's acquire is in flight.
    attempting: bool,
    /// Whether the name may have come free since then.
    again: bool,
    /// Whether other coordinators had waiters at the last release.
    pub others_wait: bool,
    /// Whether an acquire is about to begin after a random pause.
    pub draws_lots: bool,
}

impl<Asked> Default for Line<Asked> {
    fn default() -> Self {
        Self {
            places: VecDeque::new(),
            attempting: false,
            again: false,
            others_wait: false,
            draws_lots: false,
        }
    }
}

impl<Asked> Line<Asked> {
    /// Returns whether it is empty and nothing is in flight.
    pub fn is_over(&self) -> bool {
        self.places.is_empty() && !self.attempting
    }

    /// Returns whether an acquire waits and none is in flight, because the name is not free.
    pub fn is_stuck(&self) -> bool {
        !self.attempting && !self.places.is_empty()
    }

    /// Adds an acquire at the end.
    pub fn join(&mut self, place: Place<Asked>) {
        self.places.push_back(place);
    }

    /// Returns the first acquire, if it is to begin now, and marks it as in flight. If one is in flight, another try follows.
    pub fn begin(&mut self) -> Option<&mut Place<Asked>> {
        if self.attempting {
            self.again = true;
            return None;
        }
        let first = self.places.front_mut()?;
        self.attempting = true;
        Some(first)
    }

    /// Notes that the acquire in flight was blocked. Returns those that do not wait and must be answered, and whether the next
    /// try is to begin.
    pub fn blocked(&mut self) -> (Vec<Place<Asked>>, bool) {
        self.attempting = false;
        let (waiting, leaving): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut self.places)
            .into_iter()
            .partition(|place| place.waits);
        self.places = waiting;
        (leaving.into(), std::mem::take(&mut self.again))
    }

    /// Notes that the acquire in flight was granted. Returns its place, unless it has left, and those that do not wait.
    pub fn granted(&mut self, owner: &OwnerId) -> (Option<Place<Asked>>, Vec<Place<Asked>>) {
        let place = self.leave(owner);
        let (leaving, _) = self.blocked();
        (place, leaving)
    }

    /// Removes an acquire.
    pub fn leave(&mut self, owner: &OwnerId) -> Option<Place<Asked>> {
        let at = self.position(owner)?;
        self.places.remove(at)
    }

    /// Gives a place to another owner id, which waits in it; returns `None` if there is no such place. An acquire in flight for
    /// it then belongs to one that has left.
    pub fn take_over(&mut self, owner: &OwnerId, next: OwnerId) -> Option<&mut Place<Asked>> {
        let mut places = self.places.iter_mut();
        let place = places.find(|place| place.owner == *owner)?;
        place.owner = next;
        place.waits = true;
        Some(place)
    }

    /// Returns how many acquires are ahead.
    pub fn position(&self, owner: &OwnerId) -> Option<usize> {
        self.places.iter().position(|place| place.owner == *owner)
    }

    /// Returns all acquires, in order.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Place<Asked>> {
        self.places.iter_mut()
    }

    /// Returns all acquires, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Place<Asked>> + Clone {
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
