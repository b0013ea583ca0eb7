//! Releases in the background. A coordinator repeats each until nothing can be left to release.

use leasehold_core::{
    command::{End, Op, Reply, Stamped},
    failure::StoreError,
    id::OwnerId,
    name::LockName,
    session::PendingCleanup,
};

use super::{Destination, Event, Run};
use crate::{dice::MS, world::World};

impl World {
    /// Releases something in the background.
    pub(crate) fn clean_up(&mut self, by: Run, pending: PendingCleanup) {
        self.seen.clean_ups += 1;
        let coordinator = &mut self.coordinators[by.0];
        coordinator.known.insert(pending.owner);
        coordinator.registry.settle(&pending.owner);
        coordinator.cleanups += 1;
        let at = self.now;
        self.store.plan(at, Event::CleanUp(by, pending));
    }

    pub(crate) fn send_clean_up(&mut self, by: Run, pending: PendingCleanup) {
        let (name, owner, end) = (pending.name.clone(), pending.owner, pending.end);
        let op = Op::Release { owner, end };
        self.send(by, Destination::CleanUp(pending), name, op);
    }

    /// Takes in the answer to a release in the background, as the coordinator's task for it does.
    pub(crate) fn on_clean_up(
        &mut self,
        by: Run,
        pending: PendingCleanup,
        result: Result<Stamped, StoreError>,
    ) {
        let again = match result {
            Ok(stamped) => {
                let (mut found, mut closed_for) = (false, None);
                if let Reply::Released {
                    held,
                    waited,
                    closed_for: closed,
                } = stamped.executed.reply
                {
                    (found, closed_for) = (held || waited, closed);
                }
                if let Some(closed_for) = closed_for {
                    self.recheck(by, &pending.name, closed_for);
                }
                let may_arrive = pending.may_arrive_until;
                !found && may_arrive.is_some_and(|until| stamped.sent_at < until)
            }
            Err(_) => self.moment() < pending.gone_at,
        };
        if again {
            let at = self.now + 100 * MS;
            return self.store.plan(at, Event::CleanUp(by, pending));
        }
        let coordinator = &mut self.coordinators[by.0];
        coordinator.cleanups -= 1;
        coordinator.registry.forget(&pending.owner);
    }

    /// Hands a grant on that nobody at its coordinator knows of.
    pub(crate) fn discard(&mut self, by: Run, name: &LockName, owner: OwnerId) {
        let pending = PendingCleanup {
            name: name.clone(),
            owner,
            end: End::Clean,
            may_arrive_until: None,
            gone_at: self.moment().after(crate::world::LONGEST_TTL),
            asks: false,
        };
        self.clean_up(by, pending);
    }
}
