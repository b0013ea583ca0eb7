//! Beginning and end of a session.

use super::{
    Closer, Context, Opened, Output, RegistryEvent, RequestId, Response, ResumedLock, ResumedWhat,
    Resumption, Session, State, StreamEnd,
    acquire::Acquire,
    effects::Purpose,
    output::{LostLock, LostWhy, Note, Refused},
    resuming::{Progress, Settled, TakenOver},
};
use crate::{
    command::{End, Loss},
    id::OwnerId,
    planted::{Fault, is_planted},
    session::Resumed,
};

impl Session {
    /// Takes in how far taking over is.
    pub(super) fn on_progress(&mut self, progress: Progress, context: &mut Context<'_>) {
        let refused = match progress {
            Progress::Pending => return,
            Progress::Done => None,
            Progress::Failed(refused) => Some(refused),
        };
        let State::Resuming(resuming) = std::mem::replace(&mut self.state, State::Open) else {
            return;
        };
        let Some(refused) = refused else {
            let request = resuming.request();
            let (settled, inherited, events) = resuming.finish();
            self.inherited = inherited;
            return self.opened(request, settled, events, context);
        };
        self.effects.push(Output::EndStream(Some(refused)));
        self.effects.push(Output::NotOpened);
        let until = context.now.after(self.terms.ttl);
        let is_over = !resuming.may_have_any();
        self.state = State::NotOpened { until, resuming };
        if is_over {
            self.terminate(context);
        }
    }

    /// Opens it with what it took over.
    pub(super) fn opened(
        &mut self,
        request: RequestId,
        settled: Vec<Settled>,
        events: Vec<(OwnerId, RegistryEvent)>,
        context: &mut Context<'_>,
    ) {
        let (mut resumed, mut refused, mut waits) = (Vec::new(), Vec::new(), Vec::new());
        for (resumption, taken_over) in settled {
            let Resumption {
                name, next, what, ..
            } = resumption;
            let lost = |name, loss| LostLock {
                name,
                owner: next,
                why: LostWhy::Store(loss),
            };
            let what = match (taken_over, what) {
                (TakenOver::Refused(loss), _) => {
                    refused.push(lost(name, loss));
                    continue;
                }
                // The client believed that it holds what it waits for: it does not, and waits no more.
                (TakenOver::Waits { acquire, .. }, Resumed::Hold { .. }) => {
                    refused.push(lost(name.clone(), Loss::Deleted));
                    let resumed = Acquire::resumed(0, &acquire, name, None, false);
                    let mut step = step!(self, context);
                    resumed.let_go(false, &mut step);
                    continue;
                }
                (TakenOver::Held { grant, actor }, what) => {
                    let count = match what {
                        Resumed::Hold { count, .. } => count,
                        Resumed::Wait { .. } => 1,
                    };
                    let (token, permits) = (grant.token, grant.mode.permits());
                    let ends_in = grant.ends_in(self.tenure.lease().heard_at());
                    self.tenure.hold(grant, (actor, count), &mut self.effects);
                    ResumedWhat::Hold {
                        token,
                        count,
                        permits,
                        ends_in,
                    }
                }
                (
                    TakenOver::Waits {
                        acquire,
                        position,
                        deadline,
                    },
                    Resumed::Wait { request_id, .. },
                ) => {
                    waits.push((request_id, acquire, name.clone(), deadline));
                    ResumedWhat::Wait { position }
                }
            };
            let owner = next;
            resumed.push(ResumedLock { name, owner, what });
        }
        let standing = self.tenure.holds().standing();
        let opened = Opened {
            resumed,
            refused,
            valid_for: standing.and_then(|standing| self.tenure.promise(Some(standing))),
        };
        self.effects
            .send(request, Response::Opened(Box::new(opened)));
        // After the holds: an actor may hold something while it waits.
        for (request, acquire, name, deadline) in waits {
            if self.tenure.holds().any_of(acquire.actor) {
                self.effects.push(Output::WatchDeadlock(acquire.owner));
            }
            let tells_tickets = self.terms.tells_tickets;
            let resumed = Acquire::resumed(request, &acquire, name, deadline, tells_tickets);
            self.acquires.insert(request, resumed);
        }
        for (owner, event) in events {
            self.on_registry(owner, event, context);
        }
    }

    /// Takes in that its stream has ended.
    pub(super) fn on_stream_ended(&mut self, end: StreamEnd, context: &mut Context<'_>) {
        match end {
            StreamEnd::ByPeer if self.grace.is_zero() => self.terminate(context),
            StreamEnd::ByPeer => self.detach(context),
            StreamEnd::Cut => {
                self.drop_commands(false, context);
                let may_believe = !self.tenure.holds().is_empty() || self.tenure.has_revoked();
                self.linger(may_believe, context);
            }
        }
    }

    /// Leaves what the client may still believe in until that has passed.
    fn linger(&mut self, may_believe: bool, context: &mut Context<'_>) {
        if !may_believe || is_planted(Fault::CutEndsAtOnce) {
            return self.terminate(context);
        }
        self.effects.push(Output::Detached);
        let until = self.tenure.lease().promised_until();
        self.state = State::Lingering { until };
    }

    /// Goes on without a stream, until it was resumed or the grace is over.
    fn detach(&mut self, context: &mut Context<'_>) {
        let now = context.now;
        for claim in self.tenure.take_revoked() {
            self.effects.clean_up(claim, End::Unclean, None, now);
        }
        // A client that only waits was promised no more than that its heartbeats are heard.
        let lease = self.tenure.lease();
        let promised_until = if self.tenure.holds().is_empty() {
            lease.silent_at()
        } else {
            lease.promised_until()
        };
        let until = promised_until.min(now.after(self.grace));
        if until <= now {
            return self.terminate(context);
        }
        self.effects.push(Output::Detached);
        self.effects.note(Note::NothingToRenew);
        self.tenure.forget_heartbeats();
        // Acquires whose client was told no ticket: what they would be granted could not be found by it. Several names are had
        // together or not at all.
        let mut step = step!(self, context);
        let over = self
            .acquires
            .let_go(false, &mut step, |acquire| !acquire.can_move());
        for wanted in over {
            self.end_wanted(&wanted, context);
        }
        self.state = State::Detached {
            until,
            shorten_at: Some(now),
        };
    }

    /// Ends it if it has nothing left that could be resumed.
    pub(super) fn end_if_empty(&mut self, context: &mut Context<'_>) {
        if self.tenure.holds().is_empty() && self.acquires.is_empty() {
            self.terminate(context);
        }
    }

    /// Gives everything back, cancels what waits, and answers when that is done.
    pub(super) fn close(&mut self, request: RequestId, closer: Closer, context: &mut Context<'_>) {
        let now = context.now;
        if closer == Closer::Client {
            for claim in self.tenure.take_revoked() {
                self.effects.clean_up(claim, End::Clean, None, now);
            }
        }
        self.tenure.forget_heartbeats();
        let until = now.after(self.effects.store_timeout() * 2);
        let request = Some(request);
        self.state = State::Closing { request, until };
        for claim in self.tenure.take_holds() {
            let purpose = Purpose::CloseRelease(claim.clone());
            self.effects.release(purpose, &claim);
        }
        let acquires: Vec<RequestId> = self.acquires.iter().map(|(request, _)| request).collect();
        for request in acquires {
            let mut step = step!(self, context);
            if let Some(finished) = self.acquires.cancel(request, &mut step) {
                self.finish(finished, context);
            }
        }
    }

    /// Ends it because an operator says so. Tells the client, and ends what it has by force: by their tokens, so that this also
    /// ends holds that another stream has resumed.
    pub(super) fn end_by_operator(&mut self, context: &mut Context<'_>) {
        let now = context.now;
        let is_open = match self.state {
            // It ends by itself in a moment.
            State::Closing { .. } | State::Ended => return,
            State::Resuming(_) => {
                let refused = Some(Refused::EndedByOperator);
                self.effects.push(Output::EndStream(refused));
                return self.terminate(context);
            }
            State::NotOpened { .. } => return self.terminate(context),
            State::Open => true,
            State::Detached { .. } | State::Lingering { .. } => false,
        };
        let acquires = self.acquires.iter().filter(|_| is_open);
        let waits = acquires.map(|(request, wanted)| (request, wanted.locks.first().name.clone()));
        let waits: Vec<_> = waits.collect();
        self.drop_commands(false, context);
        for claim in self.tenure.take_revoked() {
            self.effects.clean_up(claim, End::Unclean, None, now);
        }
        self.tenure.forget_heartbeats();
        self.tenure.force_all(is_open, &mut self.effects);
        for (request, name) in waits {
            let refused = Response::Refused(Refused::ForcedOut(name));
            self.effects.send(request, refused);
        }
        if is_open {
            let refused = Some(Refused::EndedByOperator);
            self.effects.push(Output::EndStream(refused));
            self.effects.push(Output::Detached);
            self.effects.note(Note::NothingToRenew);
        }
        let until = now.after(self.effects.store_timeout() * 2);
        let request = None;
        self.state = State::Closing { request, until };
    }

    /// Answers that everything was given back. The client was told that it lost what was revoked, but perhaps has not heard it.
    pub(super) fn closed(&mut self, request: Option<RequestId>, context: &mut Context<'_>) {
        if let Some(request) = request {
            self.effects.send(request, Response::Closed);
            self.effects.push(Output::EndStream(None));
        }
        self.drop_commands(false, context);
        self.linger(self.tenure.has_revoked(), context);
    }
}
