//! Locks and places that a session takes over from another stream before it opens.
//!
//! Until the session is open, its client may believe in its old stream, and in whatever an unanswered attempt like this one has
//! come to: it tries another coordinator next. So what is not known to be the session's is left alone until its time is over.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use super::{
    CommandFailure, CommandId, RegistryEvent, RequestId, Resumed, Resumption,
    acquire::{Step, unexpected},
    effects::{Bound, Claim, Grant, Purpose},
    output::{Interest, Note, Output, Refused, TrackedWait, WaitEnd},
    renewal::RETRY,
};
use crate::{
    command::{Acquire, End, Loss, Op, Reply, Resume, ResumedTerms, ResumedWaiter, Stamped},
    failure::StoreError,
    id::{Actor, OwnerId, Predecessors, SessionId},
    name::LockName,
    time::Moment,
};

/// Most resumptions that are asked of the store at a time: a session that takes over thousands leaves room for others.
const SLICE: usize = 256;

/// Everything that a session takes over.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Resuming {
    /// The request that opens the session.
    request: RequestId,
    session: SessionId,
    /// Longest lock-delay that there may be.
    max_ttl: Duration,
    unsent: VecDeque<Attempt>,
    asked: BTreeMap<CommandId, Attempt>,
    settled: Vec<Settled>,
    /// The sessions that had what was taken over.
    predecessors: Vec<Inherited>,
    /// Events of the new owner ids meanwhile.
    events: Vec<(OwnerId, RegistryEvent)>,
    /// Of those that are asked: the failure of one.
    failure: Option<StoreError>,
    give_up_at: Moment,
    retry_at: Option<Moment>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Attempt {
    resumption: Resumption,
    /// Until when the last command may arrive; `None` if none was sent.
    may_arrive_until: Option<Moment>,
    /// Whether a command that was sent before may have been carried out.
    was_unanswered: bool,
}

/// Something that was taken over, by its owner id now, and the sessions that had it.
pub(super) type Inherited = (OwnerId, Predecessors);

/// A resumption and what it came to.
pub(super) type Settled = (Resumption, TakenOver);

/// Result of a resumption.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum TakenOver {
    /// A hold, or a place whose turn had come.
    Held { grant: Grant, actor: Actor },
    /// A place in the queue.
    Waits {
        acquire: Arc<Acquire>,
        position: u64,
        deadline: Option<Moment>,
    },
    /// There is nothing to take over.
    Refused(Loss),
}

/// Progress of taking over.
pub(super) enum Progress {
    /// Not all of it is settled.
    Pending,
    /// All of it is.
    Done,
    /// It can't be: the client is told why, and resumes elsewhere.
    Failed(Refused),
}

impl Resuming {
    pub(super) fn new(
        request: RequestId,
        resumptions: Vec<Resumption>,
        (session, max_ttl): (SessionId, Duration),
        step: &mut Step<'_>,
    ) -> Self {
        let unsent = resumptions.into_iter().map(|resumption| Attempt {
            resumption,
            may_arrive_until: None,
            was_unanswered: false,
        });
        let mut resuming = Self {
            request,
            session,
            max_ttl,
            unsent: unsent.collect(),
            asked: BTreeMap::new(),
            settled: Vec::new(),
            predecessors: Vec::new(),
            events: Vec::new(),
            failure: None,
            give_up_at: step.now,
            retry_at: None,
        };
        resuming.be_patient(step);
        resuming.send(step);
        resuming
    }

    pub(super) fn request(&self) -> RequestId {
        self.request
    }

    fn be_patient(&mut self, step: &Step<'_>) {
        self.give_up_at = step.now.after(step.effects.store_timeout() * 2);
    }

    fn send(&mut self, step: &mut Step<'_>) {
        self.retry_at = None;
        self.failure = None;
        let arrives = step.now.after(step.effects.store_timeout() * 3);
        for _ in 0..SLICE {
            let Some(mut attempt) = self.unsent.pop_front() else {
                return;
            };
            attempt.may_arrive_until = Some(arrives);
            let Resumption {
                name,
                from,
                next,
                max_hold,
                what,
            } = &attempt.resumption;
            let count = match what {
                Resumed::Hold { count, .. } => *count,
                Resumed::Wait { .. } => 1,
            };
            let op = Op::Resume(Resume {
                from: from.clone(),
                next: *next,
                session: Some(self.session),
                client_name: step.terms.client_name.clone(),
                ttl: step.terms.ttl,
                count,
                max_hold: *max_hold,
            });
            let id = step.effects.store(Purpose::Resume, name.clone(), op);
            self.asked.insert(id, attempt);
        }
    }

    /// Takes in the reply to a resumption.
    pub(super) fn on_reply(
        &mut self,
        id: CommandId,
        result: Result<Stamped, CommandFailure>,
        step: &mut Step<'_>,
    ) -> Progress {
        if let Some(attempt) = self.asked.remove(&id) {
            self.on_answer(attempt, result, step);
        }
        if !self.asked.is_empty() {
            return Progress::Pending;
        }
        match self.failure.take() {
            None if self.unsent.is_empty() => return Progress::Done,
            None => {
                self.be_patient(step);
                self.send(step);
            }
            Some(error) if self.give_up_at <= step.now || !error.is_retryable() => {
                return Progress::Failed(Refused::ResumeUnanswered(error));
            }
            Some(_) => self.retry_at = Some(step.now.after(RETRY)),
        }
        Progress::Pending
    }

    fn on_answer(
        &mut self,
        mut attempt: Attempt,
        result: Result<Stamped, CommandFailure>,
        step: &mut Step<'_>,
    ) {
        let claim = self.claim(&attempt.resumption, step.terms.ttl);
        let error = match result {
            Ok(stamped) => match stamped.executed.reply {
                Reply::Resumed {
                    token,
                    mode,
                    actor,
                    terms,
                } => {
                    let ResumedTerms {
                        lock_delay,
                        ends_in,
                        predecessors,
                    } = *terms;
                    self.moved(&attempt.resumption, predecessors, step);
                    let claim = Claim {
                        lock_delay,
                        ..claim
                    };
                    // A fail-over of Redis had lost its grant, and its waiter got another, which its client knows nothing of.
                    if matches!(attempt.resumption.what, Resumed::Hold { token: known, .. } if known != token)
                    {
                        step.effects.clean_up(claim, End::Unclean, None, step.now);
                        let lost = TakenOver::Refused(Loss::Taken);
                        return self.settled.push((attempt.resumption, lost));
                    }
                    step.effects.register(claim.owner, Interest::Held);
                    let grant = Grant {
                        claim,
                        token,
                        mode,
                        // What its client knows of the bound it was told on another stream.
                        bound: ends_in.map(|ends_in| Bound {
                            ends_at: stamped.sent_at.after(ends_in),
                            since: stamped.sent_at,
                            is_known: false,
                        }),
                        sent_at: stamped.sent_at,
                    };
                    let held = TakenOver::Held { grant, actor };
                    return self.settled.push((attempt.resumption, held));
                }
                Reply::ResumedWait {
                    waiter,
                    position,
                    expires_in,
                } => {
                    let ResumedWaiter {
                        acquire,
                        predecessors,
                    } = *waiter;
                    self.moved(&attempt.resumption, predecessors, step);
                    let deadline = match attempt.resumption.what {
                        Resumed::Wait { wait, .. } => wait.deadline(step.now),
                        Resumed::Hold { .. } => None,
                    };
                    let acquire = Arc::new(acquire);
                    step.effects.push(Output::TrackWait(TrackedWait {
                        name: attempt.resumption.name.clone(),
                        acquire: Arc::clone(&acquire),
                        expires_in,
                    }));
                    let waits = TakenOver::Waits {
                        acquire,
                        position,
                        deadline,
                    };
                    return self.settled.push((attempt.resumption, waits));
                }
                Reply::Lost(loss) => return self.refused(attempt.resumption, loss, step),
                _ => unexpected("resume"),
            },
            // Somebody has overwritten the lock's key.
            Err(CommandFailure::Store(StoreError::WrongType { .. })) => {
                return self.refused(attempt.resumption, Loss::Taken, step);
            }
            Err(CommandFailure::Store(error)) => error,
            Err(CommandFailure::TooManyWaiters) => unexpected("resume"),
        };
        attempt.was_unanswered |= !matches!(error, StoreError::Unavailable { .. });
        self.failure = Some(error);
        self.unsent.push_back(attempt);
    }

    /// It is ours: whoever had it here is told that it has moved.
    fn moved(&mut self, resumption: &Resumption, predecessors: Predecessors, step: &mut Step<'_>) {
        step.effects.note(Note::Resumed);
        if predecessors.iter().next().is_some() {
            self.predecessors
                .push((resumption.next, predecessors.clone()));
            step.effects.push(Output::Succeeds(predecessors));
        }
        for before in resumption.from.iter().filter(|id| **id != resumption.next) {
            step.effects.push(Output::TellMoved(*before));
        }
    }

    fn refused(&mut self, resumption: Resumption, loss: Loss, step: &mut Step<'_>) {
        step.effects.register(resumption.next, Interest::Forgotten);
        self.settled.push((resumption, TakenOver::Refused(loss)));
    }

    fn claim(&self, resumption: &Resumption, ttl: Duration) -> Claim {
        Claim {
            name: resumption.name.clone(),
            owner: resumption.next,
            ttl,
            // Not known yet: no longer than this.
            lock_delay: self.max_ttl,
            is_plain: false,
        }
    }

    /// Keeps what happened to one of the new owner ids until the session is open.
    pub(super) fn on_event(&mut self, owner: OwnerId, event: RegistryEvent) {
        self.events.push((owner, event));
    }

    /// Returns when it has something to do of itself.
    pub(super) fn due(&self) -> Option<Moment> {
        self.retry_at
    }

    /// Tries again what the store did not answer.
    pub(super) fn on_time(&mut self, step: &mut Step<'_>) {
        if self.retry_at.is_some_and(|at| at <= step.now) {
            self.send(step);
        }
    }

    /// Returns what all of it came to, and what happened to it since.
    pub(super) fn finish(self) -> (Vec<Settled>, Vec<Inherited>, Vec<(OwnerId, RegistryEvent)>) {
        (self.settled, self.predecessors, self.events)
    }

    /// Returns whether it has taken something over that this session had.
    pub(super) fn inherits_from(&self, session: SessionId) -> bool {
        let mut inherited = self.predecessors.iter();
        inherited.any(|(_, before)| before.iter().any(|id| id == session))
    }

    /// Returns the names of all that may be the session's.
    pub(super) fn names(&self) -> impl Iterator<Item = &LockName> {
        let asked = self.asked.values().chain(&self.unsent);
        let settled = self.settled.iter();
        let settled = settled
            .filter(|(_, taken_over)| !matches!(taken_over, TakenOver::Refused(_)))
            .map(|(resumption, _)| resumption);
        let all = asked.map(|attempt| &attempt.resumption).chain(settled);
        all.map(|resumption| &resumption.name)
    }

    /// Returns whether any of it may be the session's.
    pub(super) fn may_have_any(&self) -> bool {
        let mut settled = self.settled.iter();
        !self.asked.is_empty()
            || self.unsent.iter().any(|attempt| attempt.was_unanswered)
            || settled.any(|(_, taken_over)| !matches!(taken_over, TakenOver::Refused(_)))
    }

    /// Lets go of all that it may have come to: in the background, or (`is_left`) by leaving it in the store until it expires.
    pub(super) fn let_go(self, is_left: bool, step: &mut Step<'_>) {
        let Self {
            asked,
            unsent,
            settled,
            max_ttl,
            ..
        } = self;
        let ttl = step.terms.ttl;
        let asked = asked.into_values().map(|attempt| Attempt {
            was_unanswered: true,
            ..attempt
        });
        for attempt in asked.chain(unsent) {
            let Resumption { name, next, .. } = attempt.resumption;
            let claim = Claim {
                name,
                owner: next,
                ttl,
                lock_delay: max_ttl,
                is_plain: false,
            };
            if !attempt.was_unanswered {
                step.effects.register(next, Interest::Forgotten);
            } else if is_left {
                step.effects.register(next, Interest::Settling);
            } else {
                let until = attempt.may_arrive_until;
                step.effects.clean_up(claim, End::Unclean, until, step.now);
            }
        }
        for (resumption, taken_over) in settled {
            let (claim, end) = match taken_over {
                TakenOver::Held { grant, .. } => (grant.claim, End::Unclean),
                TakenOver::Waits { acquire, .. } => {
                    let untracked = Output::UntrackWait(acquire.owner, WaitEnd::Cancelled);
                    step.effects.push(untracked);
                    (Claim::of(resumption.name, &acquire), End::Clean)
                }
                TakenOver::Refused(_) => continue,
            };
            if is_left {
                step.effects.register(claim.owner, Interest::Settling);
            } else {
                step.effects.clean_up(claim, end, None, step.now);
            }
        }
    }
}
