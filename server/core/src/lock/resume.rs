//! Resume: moves a hold, or a place in the queue, to another stream.

use super::{
    LockState,
    step::{HandedOn, Step, alone},
};
use crate::{
    command::{Loss, Reply, Resume, ResumedTerms, ResumedWaiter},
    hold::Hold,
    id::OwnerId,
    replaced::Void,
    time::StoreTime,
    watch::Change,
};

/// Hold or waiter that a resume found, by its present owner id.
enum Found {
    Hold(OwnerId),
    Place(OwnerId),
}

impl LockState {
    pub(super) fn resume(&mut self, step: &mut Step<'_>, resume: &Resume) -> (Reply, HandedOn) {
        match self.find(step, resume) {
            Some(Found::Hold(owner)) => alone(self.resume_hold(step, resume, &owner)),
            Some(Found::Place(owner)) => self.resume_place(step, resume, &owner),
            None => alone(Reply::Lost(self.why_not(resume))),
        }
    }

    fn find(&self, step: &Step<'_>, resume: &Resume) -> Option<Found> {
        let here = &step.caller.coordinator;
        let next = &resume.next;
        if let Some(hold) = self.holders.get(next) {
            let is_ours = hold.coordinator == *here && hold.session == resume.session;
            return is_ours.then_some(Found::Hold(*next));
        }
        if let Some(waiter) = self.queue.get(next) {
            return (waiter.coordinator == *here).then_some(Found::Place(*next));
        }
        // An owner id that was replaced never comes back.
        if self.replaced.contains(next) {
            return None;
        }
        let held = resume
            .from
            .iter()
            .find(|owner| self.holders.get(owner).is_some());
        let waits = || resume.from.iter().find(|owner| self.queue.contains(owner));
        held.map(|owner| Found::Hold(*owner))
            .or_else(|| waits().map(|owner| Found::Place(*owner)))
    }

    fn why_not(&self, resume: &Resume) -> Loss {
        let ids = [&resume.next].into_iter().chain(&resume.from);
        let mut void = ids.filter_map(|owner| self.replaced.get(owner));
        void.next().unwrap_or_else(|| self.gone())
    }

    fn resume_hold(&mut self, step: &mut Step<'_>, resume: &Resume, owner: &OwnerId) -> Reply {
        if let Some(lost) = self.run_out(step, owner) {
            return lost;
        }
        let Some(hold) = self.holders.get(owner) else {
            return Reply::Lost(self.gone());
        };
        let max_hold = resume.bound(hold.max_hold);
        let is_over = max_hold.is_some_and(|bound| hold.acquired_at.after(bound) <= step.now);
        // Otherwise one who resumes it again and again holds it for ever. What is left is for the coordinator that had it to end:
        // the caller, if it repeats a resume.
        let is_repeated = *owner == resume.next;
        if !is_repeated && is_over {
            return Reply::Lost(Loss::Expired);
        }
        // That of the hold may have been replaced since.
        let limit = self.holders.limit();
        let Some(hold) = self.holders.remove(owner) else {
            return Reply::Lost(self.gone());
        };
        let ends_at = step.now.after(resume.ttl + hold.lock_delay);
        // A repeated resume finds the hold as it left it, or the grant of the waiter that it moved.
        let count = match is_repeated {
            true => hold.count,
            false => resume.count.max(1),
        };
        let hold = Hold {
            owner: resume.next,
            session: resume.session,
            predecessors: hold.predecessors.resumed(hold.session, resume.session),
            client_name: resume.client_name.clone(),
            max_hold,
            count,
            coordinator: step.caller.coordinator.clone(),
            confirmed: true,
            fresh: false,
            ends_at,
            ..hold
        };
        let reply = resumed(&hold, step.now);
        if step.telling.is_some() {
            let seen = step.seen(&hold);
            step.tell(|| Change::Resumed(seen));
        }
        self.holders.add(hold);
        if let Some(limit) = limit {
            self.holders.set_limit(limit);
        }
        self.remember(step);
        self.replace(step, *owner, resume);
        reply
    }

    fn resume_place(
        &mut self,
        step: &mut Step<'_>,
        resume: &Resume,
        owner: &OwnerId,
    ) -> (Reply, HandedOn) {
        let here = &step.caller.coordinator;
        self.queue.take_over(owner, here, step.now, |waiter| {
            let acquire = &mut waiter.acquire;
            let last = acquire.session;
            waiter.predecessors = waiter.predecessors.resumed(last, resume.session);
            acquire.owner = resume.next;
            acquire.session = resume.session;
            acquire.client_name = resume.client_name.clone();
            acquire.ttl = resume.ttl;
            acquire.max_hold = resume.bound(acquire.max_hold);
            acquire.wait = true;
            acquire.again = false;
        });
        self.replace(step, *owner, resume);
        let mut handed_on = self.hand_on(step);
        if handed_on.take(&resume.next).is_some()
            && let Some(hold) = self.holders.get(&resume.next)
        {
            return (resumed(hold, step.now), handed_on);
        }
        let Some(waiter) = self.queue.get(&resume.next) else {
            return (Reply::Lost(self.gone()), handed_on);
        };
        let reply = Reply::ResumedWait {
            waiter: Box::new(ResumedWaiter {
                acquire: waiter.acquire.clone(),
                predecessors: waiter.predecessors.clone(),
            }),
            position: self.queue.position(waiter.number),
            expires_in: self.expires_in(step.now),
        };
        (reply, handed_on)
    }

    /// Remembers that the former owner id is void. The resume's other ids were unknown here, and are not remembered.
    fn replace(&mut self, step: &Step<'_>, owner: OwnerId, resume: &Resume) {
        if owner != resume.next {
            let until = step.now.after(step.caller.token_memory);
            self.replaced.insert(owner, Void::Resumed, until);
        }
    }
}

fn resumed(hold: &Hold, now: StoreTime) -> Reply {
    Reply::Resumed {
        token: hold.token,
        mode: hold.mode,
        actor: hold.actor,
        terms: Box::new(ResumedTerms {
            lock_delay: hold.lock_delay,
            ends_in: hold.ends_in(now),
            predecessors: hold.predecessors.clone(),
        }),
    }
}
