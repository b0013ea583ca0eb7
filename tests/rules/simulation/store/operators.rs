//! Commands of operators, which end holds and waits, or ask holders to release.

use std::sync::Arc;

use leasehold_core::{
    command::{One, Op, ReleaseRequest},
    id::ReleaseRequestId,
    name::ReleaseReason,
};

use super::command_of;
use crate::{
    dice::MS,
    promises::holds,
    world::{NAMES, World, name},
};

impl World {
    /// Has an operator take a lock, or end one hold or wait. Its guards learn of it a moment later, as is promised.
    pub(crate) fn force_release(&mut self, number: usize) {
        let name = &name(NAMES[number]);
        let view = self.view(name);
        // A quarter each: the first holder, and the last waiter; otherwise all holders.
        let one = match (self.now / MS % 4, holds(&view).next(), view.waiters.last()) {
            (0, Some(hold), _) => Some(One::Holder(hold.token)),
            (1, _, Some(waiter)) => Some(One::Waiter(waiter.number)),
            _ => None,
        };
        for hold in holds(&view) {
            if one.is_none_or(|one| one == One::Holder(hold.token)) {
                self.seen.forced += 1;
                self.forced.insert((number, hold.token.get()), self.now);
            }
        }
        let op = one.map_or(Op::ForceRelease, Op::ForceReleaseOne);
        let command = command_of("operator", name, op);
        let executed = self.apply(&command);
        self.tell(|| format!("operator: {command:?} -> {executed:?}"));
        self.publish(&command, &executed);
    }

    /// An operator asks the holders of a name, or half of the times the first of them, to release it.
    pub(crate) fn request_release(&mut self, number: usize) {
        let name = &name(NAMES[number]);
        let view = self.view(name);
        let first = holds(&view).next().map(|hold| hold.token);
        let only = first.filter(|_| (self.now / MS).is_multiple_of(2));
        let meant = holds(&view).filter(|hold| only.is_none_or(|token| hold.token == token));
        let meant = meant.map(|hold| (hold.client_name.as_str().to_owned(), hold.token.get()));
        let id = self.asked.len() as u64;
        let meant = meant.collect();
        self.tell(|| format!("operator: asks for {name} by {id}, of {meant:?}"));
        self.asked.insert(id.to_string(), meant);
        let request = Arc::new(ReleaseRequest {
            id: ReleaseRequestId::new(id),
            reason: ReleaseReason::parse(&id.to_string()).unwrap(),
            within: None,
        });
        let command = command_of("operator", name, Op::RequestRelease { only, request });
        let executed = self.apply(&command);
        assert!(executed.handed.is_empty(), "a request hands nothing on");
        self.publish(&command, &executed);
    }
}
