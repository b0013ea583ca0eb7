//! Hold counts of reentrant holds. The session alone decides by them; the store shows them to others.

use leasehold_core::{command::Op, id::OwnerId};

use super::{requests::Asked, task::Session, wire::Wire};

/// The count of one hold.
#[derive(Debug)]
pub(super) struct Count {
    held: u32,
    /// What the store knows, as far as is known here.
    told: u32,
    telling: bool,
}

impl Count {
    /// Held once, as it was granted.
    pub(super) const fn once() -> Self {
        Self::of(1)
    }

    /// Held so many times, which the store knows.
    pub(super) const fn of(count: u32) -> Self {
        Self {
            held: count,
            told: count,
            telling: false,
        }
    }

    /// How many times it is held.
    pub(super) const fn get(&self) -> u32 {
        self.held
    }
}

impl<W: Wire> Session<W> {
    /// Holds a hold once more.
    pub(super) fn count_up(&mut self, owner: &OwnerId) {
        if let Some(held) = self.holds.get_mut(owner) {
            held.count.held = held.count.held.saturating_add(1);
            self.tell_count(owner);
        }
    }

    /// Holds a hold once less, and gives it back if it was the last time; gives how many times are left.
    pub(super) fn count_down(&mut self, owner: &OwnerId) -> u32 {
        let Some(held) = self.holds.get_mut(owner) else {
            return 0;
        };
        held.count.held -= 1;
        let left = held.count.held;
        if left > 0 {
            self.tell_count(owner);
        } else if let Some(hold) = self.unhold(owner) {
            hold.release_detached();
        }
        left
    }

    /// Tells the store, unless that is under way: then it is told again as soon as it has answered.
    pub(super) fn tell_count(&mut self, owner: &OwnerId) {
        let busy = self.is_busy();
        let Some(held) = self.holds.get_mut(owner) else {
            return;
        };
        let count = held.count.held;
        // What can't be told now is told after the next renewal.
        if busy || held.count.telling || held.count.told == count {
            return;
        }
        held.count.telling = true;
        let (name, owner) = (held.hold.name().clone(), *owner);
        let asked = Asked::Count {
            name: name.clone(),
            owner,
            count,
        };
        self.ask(name, Op::SetCount { owner, count }, asked);
    }

    /// The store has noted this count, or has not.
    pub(super) fn on_counted(&mut self, owner: &OwnerId, noted: Option<u32>) {
        let Some(held) = self.holds.get_mut(owner) else {
            return;
        };
        held.count.telling = false;
        // Unknown: 0 is no count.
        held.count.told = noted.unwrap_or(0);
        if noted.is_some() {
            self.tell_count(owner);
        }
    }
}
