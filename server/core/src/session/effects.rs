//! Effects of a session: outputs in their order, and the commands whose replies are outstanding.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use super::{
    CommandId, MaxHold, RequestId,
    output::{Interest, Note, Output, PendingCleanup, Response},
};
use crate::{
    command::{Acquire, End, Op},
    id::{FencingToken, OwnerId},
    lease::drift_margin,
    mode::Mode,
    name::{KEPT_CLIENT_NAME, LockName},
    time::Moment,
};

/// Most outputs for which an empty queue keeps memory.
const KEPT: usize = 32;
/// Most releases and changes of holds that a session may have in flight.
pub const MAX_IN_FLIGHT: usize = 1024;

/// Something that an owner id may stand for in the store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Claim {
    pub(super) name: LockName,
    pub(super) owner: OwnerId,
    pub(super) ttl: Duration,
    pub(super) lock_delay: Duration,
    /// Whether it was made without a value, and with no long client name.
    pub(super) is_plain: bool,
}

impl Claim {
    /// Returns what an acquire claims.
    pub(super) fn of(name: LockName, acquire: &Acquire) -> Self {
        let client = acquire.client_name.as_str();
        Self {
            name,
            owner: acquire.owner,
            ttl: acquire.ttl,
            lock_delay: acquire.lock_delay,
            is_plain: acquire.value.as_bytes().is_empty() && client.len() <= KEPT_CLIENT_NAME,
        }
    }
}

/// End of a hold that is bounded by its `max_hold`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Bound {
    pub(super) ends_at: Moment,
    /// Since when it is counted here.
    pub(super) since: Moment,
    /// Whether the client knows of it, and believes in the hold no longer than that.
    pub(super) is_known: bool,
}

impl Bound {
    /// Returns the end of a hold that was granted by a command sent at this moment.
    pub(super) fn of(max_hold: Option<MaxHold>, sent_at: Moment) -> Option<Self> {
        max_hold.map(|MaxHold { limit, is_asked }| Self {
            ends_at: sent_at.after(limit),
            since: sent_at,
            is_known: is_asked,
        })
    }
}

/// A claim that was granted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Grant {
    pub(super) claim: Claim,
    pub(super) token: FencingToken,
    /// Mode in which it is held, with the permits that are left of it.
    pub(super) mode: Mode,
    pub(super) bound: Option<Bound>,
    /// Time of sending of the command that granted or last renewed it.
    pub(super) sent_at: Moment,
}

impl Grant {
    /// Returns until when it stands in the store at least.
    pub(super) fn stands_until(&self) -> Moment {
        self.sent_at.after(self.claim.ttl)
    }

    /// Returns the time, counted from *sending* the heartbeat that was received at `heard_at`, after which its client stops
    /// believing in it because of its bound. The margin for clocks that run at different speeds is a share of all that time:
    /// nothing corrects it later.
    pub(super) fn ends_in(&self, heard_at: Moment) -> Option<Duration> {
        let left = heard_at.until(self.bound?.ends_at);
        Some(left.saturating_sub(drift_margin(left)))
    }

    /// Returns whether its client may have stopped believing in it because of its bound.
    pub(super) fn is_ending(&self, now: Moment) -> bool {
        self.bound.is_some_and(|bound| {
            let margin = drift_margin(bound.since.until(bound.ends_at));
            now.until(bound.ends_at) <= margin * 2
        })
    }
}

/// Purpose of a command.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Purpose {
    /// A step of an acquire: the acquire itself, giving it up, or looking who holds the lock.
    Acquire(RequestId),
    /// Gives back a lock of several, since the others can't be had.
    GiveBack(RequestId, Claim),
    /// Renews a lock of several while the others are waited for.
    RenewTaken(RequestId, OwnerId),
    /// A release that the client asked for, with the session's hold if it was one.
    Release(RequestId, Option<Claim>),
    /// A release because the session closes.
    CloseRelease(Claim),
    /// A change of a value.
    SetValue(RequestId, OwnerId),
    /// A downgrade.
    Downgrade(RequestId, OwnerId),
    /// A return of some permits.
    Reduce(RequestId, OwnerId),
    /// Notes how many times a hold is held.
    SetCount(OwnerId, u32),
    /// Renews a hold.
    Renew(OwnerId),
    /// Has a hold expire when the session's grace is over.
    Shorten(OwnerId),
    /// Takes something over from another stream.
    Resume,
}

impl Purpose {
    /// Returns the request that the command carries out, if it carries out one. An acquire may take several commands: see
    /// [`Effects::acquire`].
    const fn request(&self) -> Option<RequestId> {
        match self {
            Self::Release(id, _)
            | Self::SetValue(id, _)
            | Self::Downgrade(id, _)
            | Self::Reduce(id, _) => Some(*id),
            _ => None,
        }
    }

    /// Returns whether it counts among the releases and changes that are bounded by [`MAX_IN_FLIGHT`].
    const fn is_bounded(&self) -> bool {
        matches!(
            self,
            Self::Release(..)
                | Self::SetValue(..)
                | Self::Downgrade(..)
                | Self::Reduce(..)
                | Self::SetCount(..)
        )
    }
}

/// Outputs and outstanding commands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Effects {
    outputs: VecDeque<Output>,
    commands: BTreeMap<CommandId, Purpose>,
    last_command: u64,
    /// Number of commands that are bounded.
    bounded: usize,
    store_timeout: Duration,
    /// Whether a claim may have a value though it was made without one.
    may_have_values: bool,
}

impl Effects {
    pub(super) fn new(store_timeout: Duration) -> Self {
        Self {
            outputs: VecDeque::new(),
            commands: BTreeMap::new(),
            last_command: 0,
            bounded: 0,
            store_timeout,
            may_have_values: false,
        }
    }

    pub(super) fn store_timeout(&self) -> Duration {
        self.store_timeout
    }

    /// Returns the next output.
    pub(super) fn pop(&mut self) -> Option<Output> {
        let output = self.outputs.pop_front();
        // Memory that a burst needed is freed.
        if self.outputs.is_empty() && self.outputs.capacity() > KEPT {
            self.outputs = VecDeque::new();
        }
        output
    }

    /// Frees the memory that an empty table of commands keeps.
    pub(super) fn shrink(&mut self) {
        if self.commands.is_empty() {
            self.commands = BTreeMap::new();
        }
    }

    pub(super) fn has_outputs(&self) -> bool {
        !self.outputs.is_empty()
    }

    pub(super) fn push(&mut self, output: Output) {
        self.outputs.push_back(output);
    }

    pub(super) fn send(&mut self, request: RequestId, response: Response) {
        self.push(Output::Send(request, response));
    }

    pub(super) fn note(&mut self, note: Note) {
        self.push(Output::Note(note));
    }

    pub(super) fn register(&mut self, owner: OwnerId, interest: Interest) {
        self.push(Output::Register(owner, interest));
    }

    /// Sends a command.
    pub(super) fn store(&mut self, purpose: Purpose, name: LockName, op: Op) -> CommandId {
        self.store_for(purpose.request(), purpose, name, op)
    }

    fn store_for(
        &mut self,
        request: Option<RequestId>,
        purpose: Purpose,
        name: LockName,
        op: Op,
    ) -> CommandId {
        self.last_command += 1;
        let id = CommandId(self.last_command);
        self.bounded += usize::from(purpose.is_bounded());
        self.commands.insert(id, purpose);
        self.push(Output::Store {
            id,
            request,
            name,
            op,
        });
        id
    }

    /// Sends a clean release of a claim.
    pub(super) fn release(&mut self, purpose: Purpose, claim: &Claim) -> CommandId {
        let op = Op::Release {
            owner: claim.owner,
            end: self.end_of(Some(claim)),
        };
        self.store(purpose, claim.name.clone(), op)
    }

    /// Returns how a claim ends that its client releases.
    pub(super) fn end_of(&self, claim: Option<&Claim>) -> End {
        match claim {
            Some(claim) if claim.is_plain && !self.may_have_values => End::Plain,
            _ => End::Clean,
        }
    }

    /// Notes that any claim may have a value from now on: the client sets the value of an owner id that is not among the session's
    /// holds. An acquire may just have been granted under it.
    pub(super) fn note_values(&mut self) {
        self.may_have_values = true;
    }

    /// Returns what a command was sent for, once; `None` if the session has let go of it.
    pub(super) fn answered(&mut self, id: CommandId) -> Option<Purpose> {
        let purpose = self.commands.remove(&id)?;
        self.bounded -= usize::from(purpose.is_bounded());
        Some(purpose)
    }

    /// Lets go of all commands; gives what they were sent for.
    pub(super) fn let_go(&mut self) -> impl Iterator<Item = Purpose> + use<> {
        self.bounded = 0;
        std::mem::take(&mut self.commands).into_values()
    }

    /// Returns whether a command is outstanding that is no renewal.
    pub(super) fn is_waiting(&self) -> bool {
        let mut purposes = self.commands.values();
        purposes.any(|purpose| !matches!(purpose, Purpose::Renew(_) | Purpose::Shorten(_)))
    }

    /// Returns whether as many releases and changes are in flight as may be. Acquires count among the locks, and renewals not at all.
    pub(super) fn is_busy(&self) -> bool {
        self.bounded >= MAX_IN_FLIGHT
    }

    /// Releases a claim in the background.
    pub(super) fn clean_up(
        &mut self,
        claim: Claim,
        end: End,
        may_arrive_until: Option<Moment>,
        now: Moment,
    ) {
        let cleanup = self.cleanup(claim, end, may_arrive_until, now);
        self.push(Output::Cleanup(cleanup));
    }

    /// Does the same for a hold that was not renewed in time.
    pub(super) fn clean_up_expired(&mut self, claim: Claim, now: Moment) {
        let cleanup = PendingCleanup {
            asks: true,
            ..self.cleanup(claim, End::Unclean, None, now)
        };
        self.push(Output::Cleanup(cleanup));
    }

    fn cleanup(
        &self,
        claim: Claim,
        end: End,
        may_arrive_until: Option<Moment>,
        now: Moment,
    ) -> PendingCleanup {
        let lasts = PendingCleanup::lasts(claim.ttl, claim.lock_delay, self.store_timeout);
        PendingCleanup {
            name: claim.name,
            owner: claim.owner,
            end,
            may_arrive_until,
            gone_at: now.after(lasts),
            asks: false,
        }
    }

    /// Registers a new acquire and sends it. Returns its claim, the command, and until when the command may arrive. `is_first`
    /// says that it begins to carry out its request.
    pub(super) fn acquire(
        &mut self,
        (request, is_first): (RequestId, bool),
        name: LockName,
        acquire: Acquire,
        now: Moment,
    ) -> (Claim, CommandId, Moment) {
        let claim = Claim::of(name.clone(), &acquire);
        self.register(acquire.owner, Interest::Waits);
        let (for_request, purpose) = (is_first.then_some(request), Purpose::Acquire(request));
        let command = self.store_for(for_request, purpose, name, Op::Acquire(acquire));
        // It may stay in a queue on its way for about as long as it may take.
        (claim, command, now.after(self.store_timeout * 3))
    }
}
