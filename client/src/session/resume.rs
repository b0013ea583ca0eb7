//! Resume of the session's holds and waits on another stream, and the answer to it.

use std::collections::BTreeMap;

use super::{
    SessionInfo,
    answers::SHORTEST_HEARTBEAT,
    holds::Owned,
    ids::Ids,
    machine::{Machine, Output},
    moving::Fate,
    releases::Release,
    stream::{Asked, InFlight, Opened, Stream, duration, wire},
};
use crate::{
    clock::Moment,
    error::HoldFailure,
    lease::LostReason,
    proto::v1::{self, resumed_lock, session_request::Request as Body, session_resume},
};

/// Most bytes of `resume` in one message.
const LONGEST: usize = 1 << 20;

/// Outcome of each hold that was to be resumed: the reason for which it was not, if so.
pub(super) type Outcomes = BTreeMap<u64, Result<(), LostReason>>;

/// Result of opening a stream.
pub(super) struct News {
    pub(super) info: SessionInfo,
    pub(super) resumed: Outcomes,
    /// Something that is lost stays with the stream before.
    pub(super) left_behind: bool,
}

impl<A, H> Machine<A, H> {
    /// Returns the messages that open the session on the next stream.
    pub(super) fn opens(&mut self, now: Moment, next: &mut Stream) -> Vec<v1::SessionOpen> {
        let holds = self.resume_holds(now, next);
        let waits = self.resume_waits(now, next);
        self.count_releases(next);
        let mut first = self.open.clone();
        if !holds.is_empty() {
            // Another coordinator's default may be shorter, and must not end what guards still count on.
            first.ttl = self.ttl.map(wire);
        }
        let mut opens = vec![first];
        let mut size = 0;
        for resume in holds.into_iter().chain(waits) {
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

    fn resume_holds(&mut self, now: Moment, next: &mut Stream) -> Vec<v1::SessionResume> {
        let mut resumes = Vec::new();
        for resumable in self.holds.resumable(now) {
            let Owned { name, ids, number } = resumable.owned;
            let hold = v1::ResumedHold {
                fencing_token: resumable.token,
                hold_count: u32::try_from(resumable.count).unwrap_or(u32::MAX),
            };
            let what = session_resume::What::Hold(hold);
            let (next_id, resume) = resume(&name, &ids, self.draw, what);
            resumes.push(resume);
            if let Some(ids) = self.holds.ids(number) {
                ids.attempt(next_id.clone());
            }
            next.resuming.insert(next_id, Asked::Hold(number));
        }
        resumes
    }

    fn resume_waits(&mut self, now: Moment, next: &mut Stream) -> Vec<v1::SessionResume> {
        let mut resumes = Vec::new();
        for (acquire, waiting) in &mut self.waiting {
            let remaining = waiting.remaining(now);
            let Some(ticket) = &mut waiting.ticket else {
                continue;
            };
            let request_id = next.number_request(InFlight::Acquire(*acquire));
            let name = waiting.spec.names.label();
            let wait = v1::ResumedWait {
                acquire_request_id: request_id,
                wait: remaining.map(wire),
            };
            let what = session_resume::What::Wait(wait);
            let (next_id, resume) = resume(&name, ticket, self.draw, what);
            resumes.push(resume);
            ticket.attempt(next_id.clone());
            let asked = Asked::Wait {
                acquire: *acquire,
                request_id,
                actor: waiting.spec.actor,
            };
            next.resuming.insert(next_id, asked);
        }
        resumes
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
        let retries = self.retries.iter_mut().map(|retry| &mut retry.release);
        for release in in_flight.chain(retries).chain(&mut self.unsent_releases) {
            release.counted = resumes(release);
        }
    }

    /// Ends an attempt to resume that had no result that this session knows of.
    pub(super) fn settle_attempt(&mut self, fate: Fate) {
        let settle = |ids: &mut Ids| match fate {
            Fate::Declined => ids.declined(),
            Fate::Kept | Fate::Dropped => ids.unanswered(),
        };
        for number in self.holds.numbers() {
            if let Some(ids) = self.holds.ids(number) {
                settle(ids);
            }
        }
        for waiting in self.waiting.values_mut() {
            if let Some(ticket) = &mut waiting.ticket {
                settle(ticket);
            }
        }
        for release in &mut self.unsent_releases {
            settle(&mut release.owned.ids);
            release.counted = false;
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

    /// Makes the next stream the session's own, with the holds that it resumed.
    pub(super) fn take_over(
        &mut self,
        now: Moment,
        mut next: Stream,
        opened: v1::SessionOpened,
    ) -> News {
        let ttl = duration(opened.ttl);
        let heartbeat_interval = duration(opened.heartbeat_interval).max(SHORTEST_HEARTBEAT);
        next.opened = Some(Opened {
            ttl,
            heartbeat_interval,
            next_heartbeat: now.after(heartbeat_interval),
            last_ack: now,
        });
        self.ttl = Some(ttl);
        let info = SessionInfo {
            session_id: opened.session_id,
            coordinator: opened.coordinator,
            ttl,
            heartbeat_interval,
        };
        let deadline = next.deadline(0, opened.valid_for).unwrap_or(now);
        let mut resuming = std::mem::take(&mut next.resuming);
        self.stream = Some(next);
        let mut outcomes = Outcomes::new();
        let known = self.holds.numbers();
        for lock in opened.resumed {
            match resuming.remove(&lock.owner_id) {
                Some(Asked::Hold(number)) => {
                    outcomes.insert(number, Ok(()));
                    self.holds.resumed(number, now, deadline);
                }
                Some(Asked::Wait {
                    acquire,
                    request_id,
                    actor,
                }) => self.resumed_wait(now, (acquire, request_id, actor), lock, deadline),
                None => tracing::debug!("a resume was answered that was not asked for"),
            }
        }
        let told = opened.refused.into_iter().map(|lock| {
            let reason = LostReason::from_proto(lock.reason());
            (lock.owner_id, reason)
        });
        let told: BTreeMap<_, _> = told.collect();
        for (next_id, asked) in resuming {
            // What a coordinator says nothing of has ended with the stream before.
            let reason = told.get(&next_id).copied();
            let reason = reason.unwrap_or(LostReason::SessionEnded);
            match asked {
                Asked::Hold(number) => {
                    outcomes.insert(number, Err(reason));
                    self.holds.forget(number, now, reason);
                }
                Asked::Wait {
                    acquire,
                    request_id,
                    ..
                } => {
                    self.answered(request_id);
                    self.ask_again(acquire);
                }
            }
        }
        let mut left_behind = false;
        for number in known {
            if outcomes.contains_key(&number) {
                continue;
            }
            left_behind = true;
            // Lost, but it may be with another stream that did not answer: then it is still to be given back.
            let in_doubt = self.holds.ids(number).is_some_and(|ids| ids.in_doubt());
            if !in_doubt {
                self.holds.forget(number, now, LostReason::SessionEnded);
            }
        }
        News {
            info,
            resumed: outcomes,
            left_behind,
        }
    }

    fn resumed_wait(
        &mut self,
        now: Moment,
        (acquire, request_id, actor): (u64, u64, u64),
        lock: v1::ResumedLock,
        deadline: Moment,
    ) {
        if let Some(resumed_lock::What::Hold(hold)) = lock.what {
            // It has come to a grant.
            self.answered(request_id);
            let granted = v1::GrantedLock {
                name: lock.name,
                owner_id: lock.owner_id,
                fencing_token: hold.fencing_token,
                hold_count: hold.hold_count.max(1),
            };
            if now < deadline
                && let Some(waiting) = self.waiting.remove(&acquire)
            {
                self.hold(waiting, vec![granted], deadline);
            } else {
                self.give_back(vec![granted]);
                self.ask_again(acquire);
            }
        } else if let Some(waiting) = self.waiting.get_mut(&acquire) {
            waiting.sent_as = Some(request_id);
            waiting.queued = true;
            if let Some(ticket) = &mut waiting.ticket {
                ticket.resumed();
            }
        } else if let Some(stream) = &mut self.stream {
            // Nobody waits for it any more.
            stream.abandon(request_id, actor);
            let body = Body::Cancel(v1::SessionCancel {
                acquire_request_id: request_id,
            });
            let number = stream.number;
            let request = stream.request(body, InFlight::Other);
            self.outputs.push_back(Output::Send(number, request));
        }
    }

    /// Settles the releases from before the stream opened: the resume carried them out, or they are still to be sent.
    pub(super) fn settle_unsent(&mut self, outcomes: &Outcomes, moved: bool) {
        for mut release in std::mem::take(&mut self.unsent_releases) {
            match outcomes.get(&release.owned.number) {
                Some(Ok(())) if release.counted => {
                    self.hold_done(release.reply);
                    continue;
                }
                Some(Err(reason)) if release.counted => {
                    self.hold_failed(release.reply, HoldFailure::Lost(*reason));
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

/// Returns one entry of `open`, and its next owner id.
fn resume(
    name: &str,
    ids: &Ids,
    draw: fn() -> Vec<u8>,
    what: session_resume::What,
) -> (Vec<u8>, v1::SessionResume) {
    let next_owner_id = draw();
    let resume = v1::SessionResume {
        name: name.to_owned(),
        owner_id: ids.confirmed().to_vec(),
        tried_owner_ids: ids.tried().to_vec(),
        next_owner_id: next_owner_id.clone(),
        what: Some(what),
    };
    (next_owner_id, resume)
}
