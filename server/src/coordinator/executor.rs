//! Execution of what the machines of sessions and of unary calls ask for: registrations, commands, waiters, clean-up.

use std::{collections::HashMap, hash::Hash, sync::Arc};

use leasehold_core::{
    command::{End, Op, Reply, Resume},
    id::OwnerId,
    mode::Mode,
    name::LockName,
    session::{CommandFailure, CommandId, Context, Interest, Output, TrackedWait},
    time::Moment,
};
use leasehold_store::{Answer, Stamped, StoreError, clock};
use uuid::Uuid;

use super::{Coordinator, contention::TrackedWaiter, inbox::Inbox};
use crate::{
    admission::Share,
    audit::{Holder, Why},
    limits::WaiterPlace,
};

/// Most commands, or waiters, for which an empty table keeps memory.
const KEPT: usize = 32;

/// Executor of one machine's outputs.
#[derive(Debug)]
pub struct Executor {
    coordinator: Coordinator,
    inbox: Arc<Inbox>,
    /// The session of the machine; `None` for a unary call, which its service admits.
    sender: Option<Sender>,
    /// The client in the audit log.
    holder: Holder,
    /// Why what is released unasked ends, in the audit log.
    why: Why,
    /// Commands without an answer.
    in_flight: HashMap<CommandId, InFlight>,
    /// Waiters that are announced.
    waiters: HashMap<OwnerId, TrackedWaiter>,
    /// Places among their names' waiters of the acquires whose answers were taken in since the outputs were carried out last.
    waiter_places: Vec<(OwnerId, WaiterPlace)>,
}

/// A session as others see it.
#[derive(Debug)]
pub struct Sender {
    /// The session's caller.
    pub caller: Arc<str>,
    /// Its share of the acquires in flight.
    pub share: Share,
}

/// A command without an answer.
#[derive(Debug)]
enum InFlight {
    /// An acquire, and the time from which it is measured.
    Acquire {
        name: LockName,
        owner: OwnerId,
        since: Option<Moment>,
        place: Option<(OwnerId, WaiterPlace)>,
    },
    /// A renewal: the session itself counts its failures.
    Renewal,
    /// A release, whose end the audit log tells.
    Release { name: LockName, owner: OwnerId },
    /// A resume, with what the audit log tells of it.
    Resume {
        name: LockName,
        resume: Option<Box<Resume>>,
    },
    /// Anything else.
    Other(LockName),
}

/// Result of an execution.
#[derive(Debug)]
pub enum Execution {
    /// It is done, or on its way.
    Done,
    /// The command was not sent.
    NotSent(CommandId, CommandFailure),
    /// It is an output of another kind.
    Other(Output),
}

impl Executor {
    /// Returns the executor of a machine that is told the answers, and what happens to its owner ids, through its inbox.
    pub fn new(coordinator: Coordinator, sender: Option<Sender>, holder: Holder) -> Self {
        Self {
            coordinator,
            inbox: Arc::default(),
            sender,
            holder,
            why: Why::ClientGone,
            in_flight: HashMap::new(),
            waiters: HashMap::new(),
            waiter_places: Vec::new(),
        }
    }

    /// Returns the inbox.
    pub fn inbox(&self) -> &Arc<Inbox> {
        &self.inbox
    }

    /// Returns whether another acquire may be sent now.
    pub fn has_room(&self) -> bool {
        let sender = self.sender.as_ref();
        sender.is_none_or(|sender| sender.share.has_room())
    }

    /// Notes whether acquires wait for admission.
    pub fn set_waiting(&mut self, is_waiting: bool) {
        if let Some(sender) = &mut self.sender {
            sender.share.set_waiting(is_waiting);
        }
    }

    /// Sets why what is released unasked from now on ends.
    pub fn set_why(&mut self, why: Why) {
        self.why = why;
    }

    /// Returns that.
    pub fn why(&self) -> Why {
        self.why
    }

    /// Returns the identity of the caller, if it has one.
    pub fn identity(&self) -> Option<&str> {
        self.holder.identity.as_deref()
    }

    /// Takes note that all outputs were carried out: what was answered, and is not announced as a waiter by now, does not wait.
    pub fn carried_out(&mut self) {
        self.waiter_places = Vec::new();
    }

    /// Carries one output out, unless it is of another kind.
    pub fn execute(&mut self, output: Output) -> Execution {
        match output {
            Output::Register(owner, interest) => self.register(owner, interest),
            Output::Store {
                id,
                name,
                op,
                request,
            } => {
                if let Op::Release { owner, .. } = &op {
                    let why = match (request, self.why) {
                        (Some(_), _) => Why::Client,
                        (None, Why::Closed) => Why::Closed,
                        (None, _) => Why::GivenBack,
                    };
                    self.coordinator.audit().ending(owner, why);
                }
                if let Err(failure) = self.send(id, name, op) {
                    return Execution::NotSent(id, failure);
                }
            }
            Output::TrackWait(wait) => self.track(wait),
            Output::WatchDeadlock(owner) => {
                if let (Some(waiter), Some(sender)) = (self.waiters.get_mut(&owner), &self.sender) {
                    waiter.watch(&sender.caller);
                }
            }
            Output::UntrackWait(owner, end) => {
                if let Some(waiter) = self.waiters.remove(&owner) {
                    waiter.ended(end);
                    free(&mut self.waiters);
                }
            }
            Output::Cleanup(pending) => {
                let why = match (pending.end, self.why) {
                    (End::Unclean, why) | (_, why @ Why::Closed) => why,
                    (End::Clean | End::Plain, _) => Why::GivenBack,
                };
                self.coordinator.audit().ending(&pending.owner, why);
                self.coordinator.clean_up(pending);
            }
            Output::TellMoved(owner) => self.coordinator.registry().moved(&owner),
            other => return Execution::Other(other),
        }
        Execution::Done
    }

    fn register(&self, owner: OwnerId, interest: Interest) {
        let registry = self.coordinator.registry();
        let inbox = || Arc::clone(&self.inbox);
        match interest {
            Interest::Waits => registry.wait(owner, inbox()),
            Interest::Held => registry.hold(&owner, inbox()),
            Interest::Settling => {
                registry.settle(&owner);
                if self.why == Why::Stopped {
                    self.coordinator.audit().left(&owner);
                }
            }
            Interest::Forgotten => {
                registry.forget(&owner);
                self.coordinator.audit().forgotten(&owner);
            }
        }
    }

    fn send(&mut self, id: CommandId, name: LockName, op: Op) -> Result<(), CommandFailure> {
        let in_flight = match &op {
            Op::Acquire(acquire) => {
                let place = acquire
                    .wait
                    .then(|| self.coordinator.limits().waiter(&name));
                let place = place
                    .transpose()
                    .map_err(|_| CommandFailure::TooManyWaiters)?
                    .map(|place| (acquire.owner, place));
                if let Some(sender) = &mut self.sender {
                    sender.share.start();
                }
                let since = self.coordinator.metrics().clocks.begin();
                let (name, owner) = (name.clone(), acquire.owner);
                self.coordinator.audit().asked(&name, acquire, &self.holder);
                InFlight::Acquire {
                    name,
                    owner,
                    since,
                    place,
                }
            }
            Op::Renew { .. } => InFlight::Renewal,
            Op::Release { owner, .. } => InFlight::Release {
                name: name.clone(),
                owner: *owner,
            },
            Op::Resume(resume) => {
                let is_told = self.coordinator.audit().is_on();
                InFlight::Resume {
                    name: name.clone(),
                    resume: is_told.then(|| Box::new(resume.clone())),
                }
            }
            _ => InFlight::Other(name.clone()),
        };
        self.in_flight.insert(id, in_flight);
        let inbox: Arc<Inbox> = Arc::clone(&self.inbox);
        let answer = Answer::numbered(id.get(), inbox);
        let command = self.coordinator.command(name, op);
        self.coordinator.store().send(command, answer);
        Ok(())
    }

    fn track(&mut self, wait: TrackedWait) {
        let owner = wait.acquire.owner;
        let mut places = self.waiter_places.iter();
        let place = places.position(|(of, _)| *of == owner);
        let place = place.map(|place| self.waiter_places.swap_remove(place).1);
        let waiter = self.coordinator.track(wait, place);
        self.waiters.insert(owner, waiter);
    }

    /// Takes in that the store has answered a command.
    pub fn answered(
        &mut self,
        id: CommandId,
        result: Result<Stamped, StoreError>,
    ) -> Result<Stamped, CommandFailure> {
        let name = match self.in_flight.remove(&id) {
            Some(InFlight::Acquire {
                name,
                owner,
                since,
                place,
            }) => {
                if let Some(sender) = &mut self.sender {
                    sender.share.finish();
                }
                self.coordinator.metrics().clocks.acquired(since);
                self.waiter_places.extend(place);
                if let Ok(stamped) = &result
                    && let Reply::Granted { token, permits } = stamped.executed.reply
                {
                    let at = Some(stamped.executed.at);
                    let audit = self.coordinator.audit();
                    audit.granted(&owner, (token, permits), at);
                }
                Some(name)
            }
            Some(InFlight::Release { name, owner }) => {
                if let Ok(stamped) = &result {
                    self.coordinator.audit().release_answered(&owner, stamped);
                }
                Some(name)
            }
            Some(InFlight::Resume { name, resume }) => {
                if let (Some(resume), Ok(stamped)) = (resume, &result) {
                    self.resumed(&name, &resume, stamped);
                }
                Some(name)
            }
            Some(InFlight::Other(name)) => Some(name),
            Some(InFlight::Renewal) | None => None,
        };
        free(&mut self.in_flight);
        let result = match name {
            Some(name) => self.coordinator.outcome(&name, result),
            None => result,
        };
        result.map_err(CommandFailure::Store)
    }

    /// Has the audit log tell of what a resume has taken over.
    fn resumed(&self, name: &LockName, resume: &Resume, stamped: &Stamped) {
        let held: (_, Mode) = match &stamped.executed.reply {
            Reply::Resumed { token, mode, .. } => (Some(*token), *mode),
            Reply::ResumedWait { waiter, .. } => (None, waiter.acquire.mode),
            _ => return,
        };
        let of = (&self.holder, stamped.executed.at);
        self.coordinator.audit().resumed(name, resume, held, of);
    }
}

/// Frees the memory that an empty table needed in a burst.
fn free<K: Eq + Hash, V>(table: &mut HashMap<K, V>) {
    if table.is_empty() && table.capacity() > 2 * KEPT {
        table.shrink_to(KEPT);
    }
}

/// Lends a machine what it works with.
pub fn with_context<T>(call: impl FnOnce(&mut Context<'_>) -> T) -> T {
    call(&mut Context {
        now: clock::now(),
        fresh_owner: &mut || OwnerId::from_bytes(Uuid::new_v4().into_bytes()),
    })
}
