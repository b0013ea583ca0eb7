//! Resume of the session's holds and waits on another stream, and the answer to it.

use std::collections::BTreeMap;

use super::{
    fate::Fate,
    machine::Machine,
    output::Output,
    pending::Release,
    stream::{Asked, AskedWait, InFlight, Stream},
};
use crate::{
    clock::Moment,
    error::{AcquireError, Failure, HoldFailure},
    lease::LostReason,
    planted::{Fault, is_planted},
    proto::{
        FromWire, duration,
        v1::{self, resumed_lock, session_resume},
        wire,
    },
};

/// Most bytes of `resume` in one message.
const LONGEST: usize = 1 << 20;

/// Outcome of each hold that was to be resumed: the reason for which it was not, if so.
type Outcomes = BTreeMap<u64, Result<(), LostReason>>;

impl<A, H> Machine<A, H> {
    /// Returns the messages that open the session on the next stream.
    pub(super) fn opens(&mut self, now: Moment, next: &mut Stream) -> Vec<v1::SessionOpen> {
        let mut first = self.open.clone();
        let mut resumes = Vec::new();
        let left = usize::from(is_planted(Fault::ForgottenInDrain) && self.is_draining());
        for (owned, hold) in self.holds.resumable(now).skip(left) {
            let what = session_resume::What::Hold(hold);
            let asked = Asked::Hold(owned.number);
            let next_id = (self.draw)();
            resumes.push(next.resume(&owned.name, &mut owned.ids, next_id, what, asked));
            // Another coordinator's default may be shorter, and must not end what guards still count on.
            first.ttl = self.ttl.map(wire);
        }
        for (acquire, waiting) in &mut self.waiting {
            let wait = waiting.remaining(now).map(wire);
            let Some(ticket) = &mut waiting.ticket else {
                continue;
            };
            let request_id = next.number_request(InFlight::Acquire(*acquire));
            let what = session_resume::What::Wait(v1::ResumedWait {
                acquire_request_id: request_id,
                wait,
            });
            let asked = Asked::Wait(AskedWait {
                acquire: *acquire,
                request_id,
                actor: waiting.spec.actor,
            });
            let name = waiting.spec.locks.label();
            resumes.push(next.resume(&name, ticket, (self.draw)(), what, asked));
        }
        self.count_releases(next);
        let mut opens = vec![first];
        let mut size = 0;
        for resume in resumes {
            let ids = 2 + resume.tried_owner_ids.len();
            // Generous, for what is around it.
            let length = resume.name.len() + 20 * ids + 64;
            size += length;
            if size > LONGEST {
                size = length;
                opens.push(v1::SessionOpen::default());
            }
            if let Some(open) = opens.last_mut() {
                open.resume.push(resume);
            }
        }
        let last = opens.len() - 1;
        for open in &mut opens[..last] {
            open.more = true;
        }
        opens
    }

    /// Marks the releases that the counts in the request take into account already.
    fn count_releases(&mut self, next: &Stream) {
        let resumes = |release: &Release| {
            let number = release.owned.number;
            let asked = |asked: &Asked| matches!(asked, Asked::Hold(hold) if *hold == number);
            next.resuming.values().any(asked)
        };
        let in_flight = self.stream.iter_mut().flat_map(|stream| {
            let in_flight = stream.in_flight.values_mut();
            in_flight.filter_map(|request| match request {
                InFlight::Release(release) => Some(release),
                _ => None,
            })
        });
        for release in in_flight.chain(&mut self.unsent_releases) {
            release.counted = resumes(release);
        }
    }

    /// Ends an attempt to resume that had no result that this session knows of.
    pub(super) fn settle_attempt(&mut self, fate: Fate) {
        let waiting = self.waiting.values_mut();
        let tickets = waiting.filter_map(|waiting| waiting.ticket.as_mut());
        let releases = self.unsent_releases.iter_mut().map(|release| {
            release.counted = false;
            &mut release.owned.ids
        });
        for ids in self.holds.all_ids().chain(tickets).chain(releases) {
            match fate {
                Fate::Declined => ids.declined(),
                Fate::Kept | Fate::Dropped | Fate::Ended => ids.unanswered(),
            }
        }
    }

    /// Adds a part of the answer to `open`.
    pub(super) fn opened_in_part(&mut self, now: Moment, id: u64, part: v1::SessionOpened) {
        let Some(next) = &mut self.next else {
            return;
        };
        let more = part.more;
        match &mut next.opening {
            Some(opening) => {
                opening.resumed.extend(part.resumed);
                opening.refused.extend(part.refused);
            }
            None if matches!(next.in_flight.remove(&id), Some(InFlight::Open)) => {
                next.opening = Some(part);
            }
            None => return,
        }
        if !more && let Some(opened) = next.opening.take() {
            self.opened(now, opened);
        }
    }

    /// Makes the next stream the session's own, with what it resumed. It replaces the former one.
    fn opened(&mut self, now: Moment, mut opened: v1::SessionOpened) {
        let Some(mut next) = self.next.take() else {
            return;
        };
        let former = self.stream.take();
        // Each stream numbers its requests anew: no number of the former may be taken for one of this one.
        for waiting in self.waiting.values_mut() {
            waiting.unsend();
        }
        let (number, info) = (next.number, next.open(now, &mut opened));
        self.ttl = Some(info.ttl);
        let resuming = std::mem::take(&mut next.resuming);
        let deadline = next.deadline(now, 0, opened.valid_for).unwrap_or(now);
        let sent_at = next.heartbeats.answered(now, 0).unwrap_or(now);
        self.stream = Some(next);
        let mut known = self.holds.numbers();
        let outcomes = self.resumed(now, (sent_at, deadline), resuming, opened);
        known.retain(|number| !outcomes.contains_key(number));
        for number in &known {
            // Lost, but it may be with another stream that did not answer: then it is still to be given back.
            if !self.holds.is_in_doubt(*number) {
                self.holds.forget(*number, now, LostReason::SessionEnded);
            }
        }
        let moved = former.is_some();
        if let Some(former) = former {
            self.leave(former, !known.is_empty());
        }
        self.resume_until = None;
        self.stopped_until = None;
        self.unreachable = None;
        self.outputs.push_back(Output::Opened(number, info));
        self.settle_unsent(&outcomes, moved);
        self.send_unsent(now);
        self.wake_for_waits();
    }

    /// Settles what the new stream was asked to resume, with the `open` that was sent at this moment and is good until the
    /// deadline.
    fn resumed(
        &mut self,
        now: Moment,
        (sent_at, deadline): (Moment, Moment),
        resuming: BTreeMap<Vec<u8>, Asked>,
        opened: v1::SessionOpened,
    ) -> Outcomes {
        let mut outcomes = Outcomes::new();
        let resumed = opened.resumed.into_iter();
        let resumed = resumed.map(|lock| (lock.owner_id.clone(), Ok(lock)));
        let refused = opened.refused.into_iter().map(|lock| {
            let reason = LostReason::from_wire(lock.reason);
            (lock.owner_id, Err(reason))
        });
        let mut answers: BTreeMap<_, _> = refused.chain(resumed).collect();
        for (next_id, asked) in resuming {
            // What a coordinator says nothing of has ended with the stream before.
            let answer = answers.remove(&next_id);
            match (asked, answer.unwrap_or(Err(LostReason::SessionEnded))) {
                (Asked::Hold(number), Ok(lock)) => {
                    outcomes.insert(number, Ok(()));
                    let ends_at = duration(lock.ends_in).map(|ends_in| sent_at.after(ends_in));
                    self.holds.resumed(number, now, deadline, ends_at);
                }
                (Asked::Hold(number), Err(reason)) => {
                    outcomes.insert(number, Err(reason));
                    self.holds.forget(number, now, reason);
                }
                (Asked::Wait(wait), Ok(lock)) => {
                    self.resumed_wait(now, &wait, lock, (sent_at, deadline))
                }
                (Asked::Wait(wait), Err(LostReason::Forced)) => {
                    self.answered(wait.request_id);
                    if let Some(waiting) = self.waiting.remove(&wait.acquire) {
                        let source = Failure::force_released();
                        self.fail(waiting, |name| AcquireError::refused(name, source));
                    }
                }
                (Asked::Wait(wait), Err(_)) => {
                    self.answered(wait.request_id);
                    self.ask_again(wait.acquire);
                }
            }
        }
        if !answers.is_empty() {
            tracing::debug!("a resume was answered that was not asked for");
        }
        outcomes
    }

    fn resumed_wait(
        &mut self,
        now: Moment,
        asked: &AskedWait,
        lock: v1::ResumedLock,
        (sent_at, deadline): (Moment, Moment),
    ) {
        if let Some(resumed_lock::What::Hold(hold)) = lock.what {
            // It has come to a grant.
            self.answered(asked.request_id);
            let bounded = v1::BoundedLock {
                owner_id: lock.owner_id.clone(),
                ends_in: lock.ends_in,
            };
            let granted = v1::GrantedLock {
                name: lock.name,
                owner_id: lock.owner_id,
                fencing_token: hold.fencing_token,
                hold_count: hold.hold_count.max(1),
                permits: lock.permits,
            };
            if now < deadline
                && let Some(waiting) = self.waiting.remove(&asked.acquire)
            {
                self.hold(waiting, vec![granted], &[bounded], (sent_at, deadline));
            } else {
                self.give_back(vec![granted]);
                self.ask_again(asked.acquire);
            }
        } else if let Some(waiting) = self.waiting.get_mut(&asked.acquire) {
            waiting.sent_as = Some(asked.request_id);
            waiting.queued = true;
            if let Some(ticket) = &mut waiting.ticket {
                ticket.resumed();
            }
        } else if let Some(stream) = &mut self.stream {
            // Nobody waits for it any more.
            let cancel = stream.cancel(asked.request_id, asked.actor);
            self.outputs.push_back(cancel);
        }
    }

    /// Settles the releases from before the stream opened: the resume carried them out, or they are still to be sent.
    fn settle_unsent(&mut self, outcomes: &Outcomes, moved: bool) {
        for mut release in std::mem::take(&mut self.unsent_releases) {
            match outcomes.get(&release.owned.number) {
                Some(Ok(())) if release.counted => {
                    self.reply(release.reply, Ok(()));
                    continue;
                }
                Some(Err(reason)) if release.counted => {
                    self.reply(release.reply, Err(HoldFailure::Lost(*reason)));
                    continue;
                }
                // It is known by what is its own now.
                Some(Ok(())) => release.owned.ids.resumed(),
                // It was not to be taken over: the end of the stream before gives it back too, whichever is first.
                None => release.again |= moved,
                Some(Err(_)) => {}
            }
            release.counted = false;
            release.index = 0;
            self.unsent_releases.push(release);
        }
    }
}
