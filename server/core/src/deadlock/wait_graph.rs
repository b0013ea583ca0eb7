//! Wait graph of holds and waits, and its reduction: actors that can go on release what they hold.

use crate::{
    mode::{Limit, Mode, Taken},
    name::LockName,
    view::{HoldEdge, WaitEdge},
};

use super::BlockedWait;

/// Wait graph. Parties, waits, holds and names are referred to by their numbers.
#[derive(Clone, Default)]
pub(super) struct WaitGraph<'a> {
    pub(super) parties: Vec<Party>,
    pub(super) waits: Vec<Wait<'a>>,
    pub(super) holds: Vec<Hold<'a>>,
    /// The names, sorted.
    pub(super) names: Vec<Name<'a>>,
    /// The names whose first waiter may fit now.
    changed: Vec<usize>,
}

/// Actor that waits, or a waiter without an actor.
#[derive(Clone, Default)]
pub(super) struct Party {
    /// Whether it has published waits: then it may be a victim, and its holds count.
    pub(super) blocked: bool,
    /// Its waits. The end of one of them lets it go on.
    pub(super) waits: Vec<usize>,
    pub(super) holds: Vec<usize>,
    /// Whether it went on.
    gone: bool,
}

#[derive(Clone)]
pub(super) struct Wait<'a> {
    pub(super) edge: &'a WaitEdge,
    pub(super) name: usize,
    /// Its place in the name's queue.
    pub(super) place: usize,
    pub(super) party: usize,
    /// Whether it was published.
    pub(super) blocked: bool,
    pub(super) over: bool,
}

#[derive(Clone)]
pub(super) struct Hold<'a> {
    pub(super) edge: &'a HoldEdge,
    pub(super) name: usize,
    pub(super) party: usize,
}

#[derive(Clone)]
pub(super) struct Name<'a> {
    pub(super) name: &'a LockName,
    /// All waits, in order, including those of parties that went on.
    pub(super) queue: Vec<usize>,
    /// The number of waits at its head whose parties went on.
    pub(super) head: usize,
    /// All holds, including those of parties that went on.
    pub(super) holds: Vec<usize>,
    pub(super) capacity: Capacity,
}

/// Capacity that the holders of a name leave.
#[derive(Clone, Copy, Default)]
pub(super) struct Capacity {
    exclusive: usize,
    shared: usize,
    permits: u64,
    /// The semaphore's limit, 0 without one.
    limit: u32,
}

impl Capacity {
    fn enter(&mut self, mode: Mode) {
        match mode {
            Mode::Exclusive => self.exclusive += 1,
            Mode::Shared => self.shared += 1,
            Mode::Semaphore(permits) => self.permits += u64::from(permits.number()),
        }
    }

    /// Removes a hold.
    pub(super) fn leave(&mut self, mode: Mode) {
        match mode {
            Mode::Exclusive => self.exclusive -= 1,
            Mode::Shared => self.shared -= 1,
            Mode::Semaphore(permits) => self.permits -= u64::from(permits.number()),
        }
    }

    /// Returns whether a waiter at the head of the queue can go on. One that needs more permits than the limit does, because the store
    /// removes it from the queue.
    pub(super) fn fits(self, mode: Mode) -> bool {
        if self.limit > 0 && mode.permits_needed() > self.limit {
            return self.exclusive == 0;
        }
        let taken = match self {
            Self { exclusive: 1.., .. } => Taken::All,
            Self { shared: 1.., .. } => Taken::Shared,
            Self {
                permits: number @ 1..,
                limit,
                ..
            } => Taken::Permits { number, limit },
            _ => Taken::Nothing,
        };
        taken.fits(mode)
    }
}

impl<'a> WaitGraph<'a> {
    /// Adds a free name, with its queue, and the limit if it is a semaphore's.
    pub(super) fn name(&mut self, name: &'a LockName, queue: Vec<usize>, limit: Option<Limit>) {
        self.changed.push(self.names.len());
        self.names.push(Name {
            name,
            queue,
            head: 0,
            holds: Vec::new(),
            capacity: Capacity {
                limit: limit.map_or(0, |limit| limit.number),
                ..Capacity::default()
            },
        });
    }

    pub(super) fn hold(&mut self, hold: Hold<'a>) {
        let number = self.holds.len();
        let name = &mut self.names[hold.name];
        name.holds.push(number);
        name.capacity.enter(hold.edge.mode);
        self.parties[hold.party].holds.push(number);
        self.holds.push(hold);
    }

    /// Reduces the graph: lets every party go on that can.
    pub(super) fn settle(&mut self) {
        while let Some(name) = self.changed.pop() {
            while let Some(&wait) = self.names[name].queue.get(self.names[name].head) {
                let Wait {
                    edge, party, over, ..
                } = self.waits[wait];
                if !over {
                    if !self.names[name].capacity.fits(edge.mode) {
                        break;
                    }
                    self.go_on(party);
                }
                self.names[name].head += 1;
            }
        }
    }

    /// Makes a party release everything and give up its waits.
    pub(super) fn go_on(&mut self, party: usize) {
        let party = &mut self.parties[party];
        if std::mem::replace(&mut party.gone, true) {
            return;
        }
        for &hold in &party.holds {
            let Hold { edge, name, .. } = self.holds[hold];
            self.names[name].capacity.leave(edge.mode);
            self.changed.push(name);
        }
        for &wait in &party.waits {
            self.waits[wait].over = true;
            self.changed.push(self.waits[wait].name);
        }
    }

    /// Returns all waits that are not over, by name and place.
    pub(super) fn left(&self) -> impl Iterator<Item = usize> {
        (0..self.waits.len()).filter(|wait| !self.waits[*wait].over)
    }

    /// Returns the remaining waits for a name, in order.
    pub(super) fn queue(&self, name: usize) -> impl Iterator<Item = &Wait<'a>> {
        let Name { queue, head, .. } = &self.names[name];
        queue[*head..]
            .iter()
            .map(|wait| &self.waits[*wait])
            .filter(|wait| !wait.over)
    }

    /// Returns the remaining holders of a name, once for each hold.
    pub(super) fn holders(&self, name: usize) -> impl Iterator<Item = usize> {
        self.names[name]
            .holds
            .iter()
            .map(|hold| self.holds[*hold].party)
            .filter(|party| !self.parties[*party].gone)
    }

    /// Returns the wait as it was published, if it was.
    pub(super) fn blocked(&self, wait: usize) -> Option<BlockedWait> {
        let wait = &self.waits[wait];
        Some(BlockedWait {
            session: wait.edge.session.filter(|_| wait.blocked)?,
            actor: wait.edge.actor,
            ticket: wait.edge.owner,
            name: self.names[wait.name].name.clone(),
        })
    }
}
