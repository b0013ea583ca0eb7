//! Requests of a session's client, and what becomes of its acquires.

use std::time::Duration;

use super::{
    AcquireRequest, Context, GrantedLock, LockSpec, NotGranted, Note, OneOrMore, Refused, Request,
    RequestId, Response, Session, State,
    acquire::{Acquire, AcquireOutcome, Wanted},
    acquires::Finished,
    effects::Grant,
};
use crate::{command::End, id::OwnerId, time::Moment, view::HolderView};

impl Session {
    pub(super) fn on_request(
        &mut self,
        request: RequestId,
        asked: Request,
        context: &mut Context<'_>,
    ) -> Result<(), Refused> {
        let (now, effects) = (context.now, &mut self.effects);
        if !matches!(asked, Request::Heartbeat { .. }) {
            self.tenure.wake(now);
        }
        match asked {
            Request::Acquire(acquire) => return self.on_acquire(request, acquire, context),
            Request::Cancel(request) => {
                let mut step = step!(self, context);
                if let Some(finished) = self.acquires.cancel(request, &mut step) {
                    self.finish(finished, context);
                }
            }
            Request::Release {
                name,
                owner,
                expired,
            } => {
                let asked = (name, owner, expired);
                let had_it = self.tenure.has(&owner);
                let released = self.tenure.release(request, asked, now, effects);
                if had_it && !self.tenure.has(&owner) {
                    self.inherited.retain(|(inherited, _)| *inherited != owner);
                }
                return released;
            }
            Request::SetValue { name, owner, value } => {
                return self
                    .tenure
                    .set_value(request, (name, owner, value), effects);
            }
            Request::Downgrade { name, owner } => {
                return self.tenure.downgrade(request, (name, owner), effects);
            }
            Request::Reduce {
                name,
                owner,
                permits,
            } => {
                let asked = (name, owner, permits);
                return self.tenure.reduce(request, asked, effects);
            }
            Request::Heartbeat { sequence } => {
                // Most sessions are idle between heartbeats; a busy one pays for this once in a while.
                self.acquires.shrink();
                effects.shrink();
                let waits = !self.acquires.is_empty();
                return self
                    .tenure
                    .heartbeat(request, sequence, waits, now, effects);
            }
            Request::Close(closer) => self.close(request, closer, context),
        }
        Ok(())
    }

    pub(super) fn on_acquire(
        &mut self,
        request: RequestId,
        asked: AcquireRequest,
        context: &mut Context<'_>,
    ) -> Result<(), Refused> {
        if self.acquires.contains(request) {
            return Err(Refused::RequestIdInUse(request));
        }
        let (again, fresh) = self.held_before(&asked)?;
        let wanted = Wanted {
            actor: asked.actor,
            locks: asked.locks,
            again,
        };
        let has = self.tenure.holds().len() + self.acquires.locks();
        let (more, limit) = (wanted.more(), self.max_locks);
        if has + more > limit {
            return Err(Refused::TooManyLocks { has, more, limit });
        }
        for owner in &wanted.again {
            self.tenure.holds_mut().count_up(owner, &mut self.effects);
        }
        if more == 0 {
            self.on_granted(request, &wanted, Vec::new(), None, context);
            return Ok(());
        }
        let terms = (asked.wait, asked.value, asked.lock_delay, asked.max_hold);
        let acquire = Acquire::new(request, wanted, fresh, terms, context.now);
        self.acquires.insert(request, acquire);
        Ok(())
    }

    /// Returns the actor's holds among the locks of an acquire, each of which it may hold once more, and the other locks (none
    /// for nobody, to whom all are others).
    fn held_before(
        &self,
        asked: &AcquireRequest,
    ) -> Result<(Vec<OwnerId>, Vec<LockSpec>), Refused> {
        let AcquireRequest { actor, locks, .. } = asked;
        let (mut again, mut fresh) = (Vec::new(), Vec::new());
        if actor.is_nobody() && locks.len() == 1 {
            return Ok((again, fresh));
        }
        for lock in locks.iter() {
            let name = &lock.name;
            let held = self.tenure.holds().of(*actor, name);
            let self_deadlock = |holds| Refused::SelfDeadlock {
                actor: *actor,
                name: name.clone(),
                holds,
            };
            match held {
                Some(_) if !asked.reentrant => return Err(self_deadlock(true)),
                Some(hold) if hold.mode().covers(lock.mode) => again.push(hold.grant.claim.owner),
                Some(_) => {
                    return Err(Refused::Upgrade {
                        actor: *actor,
                        name: name.clone(),
                    });
                }
                None if self.acquires.is_asked(*actor, name) => return Err(self_deadlock(false)),
                None => fresh.push(lock.clone()),
            }
        }
        Ok((again, fresh))
    }

    /// Takes in that an acquire has come to its end.
    pub(super) fn finish(&mut self, finished: Finished, context: &mut Context<'_>) {
        let Finished {
            request,
            acquire,
            outcome,
        } = finished;
        let Acquire {
            wanted,
            taken,
            denied,
            ..
        } = acquire;
        let response = match (outcome, denied) {
            (AcquireOutcome::Granted(last), None) => {
                let taken = taken.into_grants();
                return self.on_granted(request, &wanted, taken, Some(last), context);
            }
            // Its outcome is sent on the stream that resumed it.
            (AcquireOutcome::Moved, _) => {
                self.effects.note(Note::Moved(request));
                return self.end_wanted(&wanted, context);
            }
            (outcome, Some(name)) => {
                if let AcquireOutcome::Granted(last) = outcome {
                    // The client never hears of it.
                    self.give_back(taken.into_grants().into_iter().chain([last]), context);
                }
                Response::Refused(Refused::PermissionDenied(name))
            }
            (AcquireOutcome::Refused(refused), None) => Response::Refused(refused),
            (AcquireOutcome::Busy(holder), None) => not_granted(NotGranted::Busy, holder, &wanted),
            (AcquireOutcome::TimedOut(holder), None) => {
                not_granted(NotGranted::TimedOut, holder, &wanted)
            }
            (AcquireOutcome::Cancelled, None) => not_granted(NotGranted::Cancelled, None, &wanted),
        };
        self.end_wanted(&wanted, context);
        self.effects.send(request, response);
    }

    /// Lets go of the holds that an acquire which was not granted counted on.
    pub(super) fn end_wanted(&mut self, wanted: &Wanted, context: &mut Context<'_>) {
        for owner in &wanted.again {
            self.tenure
                .count_down(owner, context.now, &mut self.effects);
        }
    }

    pub(super) fn give_back(&mut self, grants: impl Iterator<Item = Grant>, context: &Context<'_>) {
        for grant in grants {
            self.effects
                .clean_up(grant.claim, End::Clean, None, context.now);
        }
    }

    pub(super) fn on_granted(
        &mut self,
        request: RequestId,
        wanted: &Wanted,
        taken: Vec<Grant>,
        last: Option<Grant>,
        context: &mut Context<'_>,
    ) {
        let grants = taken.iter().chain(&last);
        let held = wanted.again.iter().map(|owner| {
            let hold = self.tenure.holds().get(owner);
            hold.map(|hold| hold.grant.stands_until())
        });
        // `None` if a hold that it counts on was lost.
        let stands = grants.map(|grant| Some(grant.stands_until()));
        let stands_until = stands.chain(held).min().flatten();
        let promise = match &self.state {
            State::Closing { .. } => None,
            // Nobody hears of it: it is kept for whoever resumes it by its ticket, and nothing is promised.
            State::Detached { .. } => stands_until.map(|_| Duration::ZERO),
            _ => stands_until.and_then(|until| self.tenure.promise(Some(until))),
        };
        let Some(valid_for) = promise else {
            self.give_back(taken.into_iter().chain(last), context);
            self.end_wanted(wanted, context);
            if !matches!(self.state, State::Closing { .. }) {
                let refused = match stands_until {
                    Some(_) => Refused::TooLate,
                    None => Refused::LockLost,
                };
                self.effects.send(request, Response::Refused(refused));
            }
            return;
        };
        if let Some(last) = &last {
            self.effects.note(Note::HandedOff(request, last.sent_at));
        }
        let (mut first, mut others) = (None, Vec::new());
        let mut add = |lock| match first {
            None => first = Some(lock),
            Some(_) => others.push(lock),
        };
        let heard_at = self.tenure.lease().heard_at();
        for grant in taken.into_iter().chain(last) {
            add(granted_lock(&grant, 1, heard_at));
            self.tenure
                .hold(grant, (wanted.actor, 1), &mut self.effects);
        }
        if let State::Detached { shorten_at, .. } = &mut self.state {
            *shorten_at = Some(context.now);
        }
        for owner in &wanted.again {
            if let Some(hold) = self.tenure.holds().get(owner) {
                add(granted_lock(&hold.grant, hold.count(), heard_at));
            }
        }
        if !others.is_empty() {
            let asked: Vec<&LockSpec> = wanted.locks.iter().collect();
            others.extend(first.take());
            others.sort_by_cached_key(|lock| asked.iter().position(|it| it.name == lock.name));
            first = Some(others.remove(0));
        }
        let Some(first) = first else { return };
        let locks = OneOrMore::new(first, others);
        let granted = Response::Granted {
            locks,
            valid_for,
            acked_heartbeat: self.tenure.lease().sequence(),
        };
        self.effects.send(request, granted);
    }
}

fn not_granted(why: NotGranted, holder: Option<HolderView>, wanted: &Wanted) -> Response {
    let names = wanted.locks.map(|lock| lock.name.clone());
    Response::NotGranted { why, holder, names }
}

fn granted_lock(grant: &Grant, count: u32, heard_at: Moment) -> GrantedLock {
    GrantedLock {
        name: grant.claim.name.clone(),
        owner: grant.claim.owner,
        token: grant.token,
        count,
        permits: grant.mode.permits(),
        ends_in: grant.ends_in(heard_at),
    }
}
