//! Wake-ups of the coordinators that a command concerns. Their way is lossy.

use std::sync::Arc;

use leasehold_core::{
    command::{Command, Executed, Handed, HoldAt, One, Op, Reply, WakeUp},
    id::CoordinatorId,
};

use super::Event;
use crate::world::World;

impl World {
    /// Wakes the coordinators up that the command concerns.
    pub(super) fn publish(&mut self, command: &Command, executed: &Executed) {
        let (by, name) = (&command.caller.coordinator, &command.name);
        for handed in &executed.handed {
            self.seen.hand_offs += 1;
            self.seen.hand_offs_of_what_is_left += u64::from(handed.permits.is_some());
            let Handed {
                owner,
                token,
                permits,
                coordinator,
                of_session,
            } = handed.clone();
            if coordinator != *by {
                self.seen.hand_offs_elsewhere += 1;
                let wake_up = WakeUp::Granted {
                    name: name.clone(),
                    owner,
                    token,
                    permits: permits.map(std::num::NonZeroU32::get),
                    of_session,
                };
                let mut coordinators = self.coordinators.iter();
                if let Some(number) = coordinators.position(|it| it.id == coordinator) {
                    self.note_hand_off(self.run(number), owner);
                }
                self.wake_up(|id| *id == coordinator, wake_up);
            }
        }
        if let Reply::Forced { former, .. } = &executed.reply {
            for former in former {
                let (name, owner) = (name.clone(), former.owner);
                let wake_up = match command.op {
                    Op::ForceReleaseOne(One::Waiter(_)) => WakeUp::ForcedWaiter { name, owner },
                    _ => WakeUp::Forced { name, owner },
                };
                self.wake_up(|id| *id == former.coordinator, wake_up);
            }
        }
        if let (Reply::Asked { holders }, Op::RequestRelease { request, .. }) =
            (&executed.reply, &command.op)
        {
            for HoldAt { holder, token } in holders {
                let wake_up = WakeUp::ReleaseRequested {
                    name: name.clone(),
                    owner: holder.owner,
                    token: *token,
                    request: Arc::clone(request),
                };
                self.wake_up(|id| *id == holder.coordinator, wake_up);
            }
        }
        if let (Reply::Resumed { .. } | Reply::ResumedWait { .. }, Op::Resume(resume)) =
            (&executed.reply, &command.op)
        {
            for owner in resume.from.iter().copied() {
                let name = name.clone();
                self.wake_up(|id| id != by, WakeUp::Resumed { name, owner });
            }
        }
    }

    fn wake_up(&mut self, is_meant: impl Fn(&CoordinatorId) -> bool, wake_up: WakeUp) {
        for number in 0..self.coordinators.len() {
            let coordinator = &self.coordinators[number];
            let run = (number, coordinator.runs);
            if !coordinator.is_up() || !is_meant(&coordinator.id) {
                continue;
            }
            // The way is lossy in any weather, but for the last moments: the refresh is behind it.
            if !self.is_prompt && self.dice.once_in(4) {
                self.seen.lost_wake_ups += 1;
                continue;
            }
            let at = self.now + self.dice.delay();
            self.store.plan(at, Event::WakeUp(run, wake_up.clone()));
        }
    }
}
