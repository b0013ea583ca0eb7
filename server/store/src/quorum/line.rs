//! Queue of the acquires of one name at this coordinator.
//!
//! One acquire of a name is under way at a time, the first one's. A line is there for as long as somebody is in it.

use std::collections::VecDeque;

use leasehold_core::id::OwnerId;

/// One that is in line.
#[derive(Debug)]
pub struct Place<Asked> {
    /// Who.
    pub owner: OwnerId,
    /// Whether it waits for its turn, or wants to be told at once that it is not.
    pub waits: bool,
    /// What it asks.
    pub asked: Asked,
}

/// The line of one name.
#[derive(Debug)]
pub struct Line<Asked> {
    places: VecDeque<Place<Asked>>,
    /// Whether the first one's acquire is under way.
    attempting: bool,
    /// Whether the name may have come free since that began.
    again: bool,
    /// Whether waiters of other coordinators were there at the last release.
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
    /// Whether nobody is in it and nothing is under way.
    pub fn is_over(&self) -> bool {
        self.places.is_empty() && !self.attempting
    }

    /// Whether somebody waits in it whose acquire is not under way: the name is not free.
    pub fn is_stuck(&self) -> bool {
        !self.attempting && !self.places.is_empty()
    }

    /// Joins at its end.
    pub fn join(&mut self, place: Place<Asked>) {
        self.places.push_back(place);
    }

    /// Whose turn it is, if an acquire is to begin now; it is under way from here on. If one is, another follows.
    pub fn begin(&mut self) -> Option<&mut Place<Asked>> {
        if self.attempting {
            self.again = true;
            return None;
        }
        let first = self.places.front_mut()?;
        self.attempting = true;
        Some(first)
    }

    /// The acquire that was under way has come to nothing. Gives those that do not wait, who are to be told; `again` says
    /// whether the next one is to begin.
    pub fn blocked(&mut self) -> (Vec<Place<Asked>>, bool) {
        self.attempting = false;
        let (waiting, leaving): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut self.places)
            .into_iter()
            .partition(|place| place.waits);
        self.places = waiting;
        (leaving.into(), std::mem::take(&mut self.again))
    }

    /// The acquire that was under way has been granted: gives whose it was, unless that one has left, and those that do not
    /// wait.
    pub fn granted(&mut self, owner: &OwnerId) -> (Option<Place<Asked>>, Vec<Place<Asked>>) {
        let place = self.leave(owner);
        let (leaving, _) = self.blocked();
        (place, leaving)
    }

    /// Leaves it.
    pub fn leave(&mut self, owner: &OwnerId) -> Option<Place<Asked>> {
        let at = self.position(owner)?;
        self.places.remove(at)
    }

    /// Gives a place to another owner id, which waits at it; `None` if there is none. An acquire that is under way for it is
    /// of one that has left.
    pub fn take_over(&mut self, owner: &OwnerId, next: OwnerId) -> Option<&mut Place<Asked>> {
        let mut places = self.places.iter_mut();
        let place = places.find(|place| place.owner == *owner)?;
        place.owner = next;
        place.waits = true;
        Some(place)
    }

    /// How many are ahead.
    pub fn position(&self, owner: &OwnerId) -> Option<usize> {
        self.places.iter().position(|place| place.owner == *owner)
    }

    /// All of them, in order.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Place<Asked>> {
        self.places.iter_mut()
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Place<Asked>> + Clone {
        self.places.iter()
    }

    /// How many they are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether nobody is in it.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
}
