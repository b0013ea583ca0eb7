//! Search for what an earlier attempt of the same request came to.

use std::{sync::Arc, time::Duration};

use crate::{
    command::{Op, Reply, Resume, ResumedTerms, Stamped},
    failure::StoreError,
    id::{Actor, OwnerId},
    name::LockName,
    session::{
        CommandFailure, CommandId, Output, RegistryEvent,
        acquire::{Acquire, Step, unexpected},
        effects::{Claim, Effects, Grant, Purpose},
        output::{Interest, TrackedWait},
    },
    time::Moment,
    view::NameEdges,
};

/// Progress of the search. An earlier attempt has the same mark, and no session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Search {
    /// It looks when the acquire is not simply granted, and again when it has taken a hold over that others may share.
    Ready(Request),
    /// It looks at the holders and waiters.
    Looks(Request, CommandId),
    /// It has seen an earlier attempt, and looks again then.
    Pauses(Request, Moment),
    /// It takes over a hold or a place.
    TakesOver {
        request: Request,
        command: CommandId,
        from: OwnerId,
        next: OwnerId,
        /// Event of the new owner id that came before the answer.
        early: Option<RegistryEvent>,
    },
    /// There is nothing to search for, or no more.
    Over,
}

/// Request whose attempts are searched for, and the state of the search.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Request {
    name: LockName,
    mark: Actor,
    deadline: Option<Moment>,
    /// Set once it has paused.
    has_paused: bool,
    /// Number of times that it may still look.
    looks: u8,
    /// Holds of this attempt that are being given back.
    given_back: Vec<OwnerId>,
}

/// Most times that an attempt looks: as long as it finds another one that shares the lock.
const MOST_LOOKS: u8 = 8;

/// Time before it takes anything over. An attempt whose client has gone is given up as soon as its coordinator reads that; until
/// then it might take a hold from a later attempt whose client is there.
pub(super) const PAUSE: Duration = Duration::from_millis(20);

/// Result of the search.
pub(super) enum Found {
    /// The attempt stands alone.
    Nothing,
    /// The hold of an earlier one.
    Hold(Grant),
    /// The place of an earlier one, and what has happened to it.
    Place(Box<Acquire>, Option<RegistryEvent>),
    /// The store did not say.
    Failed(StoreError),
}

impl Search {
    pub(super) fn new(name: LockName, mark: Actor, deadline: Option<Moment>) -> Self {
        Self::Ready(Request {
            name,
            mark,
            deadline,
            has_paused: false,
            looks: MOST_LOOKS,
            given_back: Vec::new(),
        })
    }

    /// Notes that a hold of this attempt is being given back.
    pub(super) fn gives_back(&mut self, owner: OwnerId) {
        if let Self::Ready(request) = self {
            request.given_back.push(owner);
        }
    }

    /// Looks, if it is ready to.
    pub(super) fn begin(&mut self, effects: &mut Effects) {
        if let Self::Ready(request) = self
            && let Some(looks) = request.looks.checked_sub(1)
        {
            let command = effects.store(Purpose::Acquire(0), request.name.clone(), Op::Edges);
            let request = Request {
                looks,
                ..request.clone()
            };
            *self = Self::Looks(request, command);
        }
    }

    pub(super) fn is_under_way(&self) -> bool {
        matches!(
            self,
            Self::Looks(..) | Self::Pauses(..) | Self::TakesOver { .. }
        )
    }

    /// Returns when it looks again.
    pub(super) fn due(&self) -> Option<Moment> {
        match self {
            Self::Pauses(_, until) => Some(*until),
            _ => None,
        }
    }

    /// Looks again, if it is time.
    pub(super) fn on_time(&mut self, now: Moment, effects: &mut Effects) {
        if let Self::Pauses(request, until) = self
            && *until <= now
        {
            *self = Self::Ready(request.clone());
            self.begin(effects);
        }
    }

    /// Ends it unless it takes something over already: this attempt is not the latest.
    pub(super) fn stop_looking(&mut self, effects: &mut Effects) {
        if !matches!(self, Self::TakesOver { .. }) {
            std::mem::replace(self, Self::Over).let_go(effects);
        }
    }

    /// Returns whether a command was sent for it.
    pub(super) fn awaits(&self, id: CommandId) -> bool {
        match self {
            Self::Looks(_, command) | Self::TakesOver { command, .. } => *command == id,
            Self::Ready(_) | Self::Pauses(..) | Self::Over => false,
        }
    }

    /// Takes in the answer to its command. `own` is the owner id of this attempt, if it holds or waits.
    pub(super) fn on_reply(
        &mut self,
        own: Option<OwnerId>,
        result: Result<Stamped, CommandFailure>,
        step: &mut Step<'_>,
    ) -> Option<Found> {
        let state = std::mem::replace(self, Self::Over);
        let stamped = match result {
            Ok(stamped) => stamped,
            Err(failure) => {
                state.let_go(step.effects);
                return Some(Found::Failed(match failure {
                    CommandFailure::Store(error) => error,
                    CommandFailure::TooManyWaiters => unexpected("look"),
                }));
            }
        };
        match (state, stamped.executed.reply) {
            (Self::Looks(request, _), Reply::Edges(edges)) => {
                let Some(from) = request.earlier(&edges, own) else {
                    return Some(Found::Nothing);
                };
                if !request.has_paused {
                    let request = Request {
                        has_paused: true,
                        ..request
                    };
                    *self = Self::Pauses(request, step.now.after(PAUSE));
                    return None;
                }
                let next = (step.fresh)();
                step.effects.register(next, Interest::Waits);
                let resume = Op::Resume(Resume {
                    from: vec![from],
                    next,
                    session: None,
                    client_name: step.terms.client_name.clone(),
                    ttl: step.terms.ttl,
                    count: 1,
                    max_hold: None,
                });
                let name = request.name.clone();
                *self = Self::TakesOver {
                    command: step.effects.store(Purpose::Resume, name, resume),
                    request,
                    from,
                    next,
                    early: None,
                };
                None
            }
            (
                Self::TakesOver {
                    request,
                    from,
                    next,
                    early,
                    ..
                },
                reply,
            ) => {
                let sent_at = stamped.sent_at;
                let found = request.taken_over((from, next), reply, (sent_at, early), step);
                if matches!(found, Found::Hold(_)) {
                    *self = Self::Ready(request);
                }
                Some(found)
            }
            _ => Some(Found::Failed(unexpected("look"))),
        }
    }

    /// Keeps what happened to the owner id that it takes over; returns what happened to another.
    pub(super) fn on_event(
        &mut self,
        owner: OwnerId,
        event: RegistryEvent,
    ) -> Option<RegistryEvent> {
        match self {
            Self::TakesOver { next, early, .. } if *next == owner => {
                *early = Some(event);
                None
            }
            _ => Some(event),
        }
    }

    /// Ends it. What it may have taken over stays: see [`super::Call::let_go`].
    pub(super) fn let_go(self, effects: &mut Effects) {
        match self {
            Self::Looks(_, command) => {
                effects.answered(command);
            }
            Self::TakesOver { command, next, .. } => {
                effects.answered(command);
                effects.register(next, Interest::Forgotten);
            }
            Self::Ready(_) | Self::Pauses(..) | Self::Over => {}
        }
    }
}

impl Request {
    /// Returns the owner id of an earlier attempt: of one that holds the lock, or waits before this one.
    fn earlier(&self, edges: &NameEdges, own: Option<OwnerId>) -> Option<OwnerId> {
        let is_other = |session: Option<_>, actor, owner| {
            let is_own = Some(owner) == own || self.given_back.contains(&owner);
            session.is_none() && actor == self.mark && !is_own
        };
        let mut holders = edges.holders.iter();
        let holder = holders.find(|hold| is_other(hold.session, hold.actor, hold.owner));
        let mut waiters = edges.waiters.iter();
        let waits = waiters.position(|wait| Some(wait.owner) == own);
        let mut before = edges.waiters[..waits.unwrap_or(0)].iter();
        let waiter = before.find(|wait| is_other(wait.session, wait.actor, wait.owner));
        holder
            .map(|hold| hold.owner)
            .or(waiter.map(|wait| wait.owner))
    }

    fn taken_over(
        &self,
        (from, next): (OwnerId, OwnerId),
        reply: Reply,
        (sent_at, early): (Moment, Option<RegistryEvent>),
        step: &mut Step<'_>,
    ) -> Found {
        let claim = |lock_delay: Duration| Claim {
            name: self.name.clone(),
            owner: next,
            ttl: step.terms.ttl,
            lock_delay,
            is_plain: false,
        };
        match reply {
            Reply::Resumed {
                token, mode, terms, ..
            } => {
                let ResumedTerms { lock_delay, .. } = *terms;
                let claim = claim(lock_delay);
                step.effects.push(Output::TellMoved(from));
                Found::Hold(Grant {
                    claim,
                    token,
                    mode,
                    bound: None,
                    sent_at,
                })
            }
            Reply::ResumedWait {
                waiter, expires_in, ..
            } => {
                step.effects.push(Output::TellMoved(from));
                let acquire = waiter.acquire;
                step.effects.push(Output::TrackWait(TrackedWait {
                    name: self.name.clone(),
                    acquire: Arc::new(acquire.clone()),
                    expires_in,
                }));
                let name = self.name.clone();
                let acquire = Acquire::resumed(0, &acquire, name, self.deadline, false);
                Found::Place(Box::new(acquire), early)
            }
            reply => {
                step.effects.register(next, Interest::Forgotten);
                match reply {
                    Reply::Lost(_) => Found::Nothing,
                    _ => Found::Failed(unexpected("resume")),
                }
            }
        }
    }
}
