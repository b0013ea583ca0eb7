//! Task that owns the contended names of this coordinator: it feeds their machine ([`leasehold_core::contention`]) with what
//! happens, and carries out what that says.

use std::sync::Arc;

use leasehold_core::{
    command::Acquire,
    contention::{ContendedNames, Context, Input, Output, Owners},
    deadlock::BlockedWait,
    id::OwnerId,
    name::LockName,
    session::{CommandId, RegistryEvent, TrackedWait, WaitEnd},
    time::Moment,
};
use leasehold_store::{Answer, Answers, WakeUp};
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{Coordinator, contended::Messages, registry::Registry};
use crate::{
    alarm::Alarm,
    limits::WaiterPlace,
    telemetry::{Tracked, waits::WaitTimer},
};

/// A waiter that was announced, for as long as this lives.
#[derive(Debug)]
pub struct TrackedWaiter {
    coordinator: Coordinator,
    name: LockName,
    acquire: Arc<Acquire>,
    timer: WaitTimer,
    /// The wait as the detector of deadlocks knows it.
    blocked: Option<BlockedWait>,
    _tracked: Tracked,
    _place: WaiterPlace,
}

impl Coordinator {
    /// Announces a waiter, with what is in its way for so long. One that was resumed has no place yet, and waits anyway.
    pub fn track(&self, wait: TrackedWait, place: Option<WaiterPlace>) -> TrackedWaiter {
        let (name, acquire) = (wait.name.clone(), Arc::clone(&wait.acquire));
        self.contention().tell(Input::Waits(wait));
        TrackedWaiter {
            coordinator: self.clone(),
            timer: self.metrics().clocks.wait(),
            blocked: None,
            _tracked: self.metrics().waiters.track(),
            _place: place.unwrap_or_else(|| self.limits().waiter_again(&name)),
            name,
            acquire,
        }
    }
}

impl TrackedWaiter {
    /// Tells the detector of deadlocks that the actor which waits holds something meanwhile.
    pub fn watch(&mut self, caller: &Arc<str>) {
        if let Some(session) = self.acquire.session {
            let wait = BlockedWait {
                session,
                actor: self.acquire.actor,
                ticket: self.acquire.owner,
                name: self.name.clone(),
            };
            self.coordinator.blocked().add(caller, &wait);
            self.blocked = Some(wait);
        }
    }

    /// Withdraws the waiter.
    pub fn ended(mut self, end: WaitEnd) {
        self.timer.set_end(end);
    }
}

impl Drop for TrackedWaiter {
    fn drop(&mut self) {
        if let Some(wait) = &self.blocked {
            self.coordinator.blocked().remove(wait);
        }
        self.coordinator.contention().tell(Input::Gone {
            name: self.name.clone(),
            owner: self.acquire.owner,
        });
    }
}

/// Contended names with what serves them.
struct Driver {
    coordinator: Coordinator,
    names: ContendedNames,
    counted: Tracked,
    answers: Arc<dyn Answers>,
    /// The time from which the machine's is counted: that of tokio's timers.
    begun: Instant,
}

/// Runs until it is stopped.
pub async fn run(
    coordinator: Coordinator,
    mut messages: Messages,
    mut wake_ups: mpsc::Receiver<WakeUp>,
    stop: CancellationToken,
) {
    let mut status = coordinator.store().status();
    let (answers, mut answered) = mpsc::unbounded_channel();
    let mut driver = Driver {
        names: ContendedNames::default(),
        counted: coordinator.metrics().contended_names.track_none(),
        answers: Arc::new(answers),
        begun: Instant::now(),
        coordinator,
    };
    let mut alarm = Alarm::new(driver.now());
    loop {
        alarm.set(driver.names.next_timeout(), driver.now());
        let input = tokio::select! {
            () = stop.cancelled() => return,
            Some((message, _tracked)) = messages.recv() => Some(message),
            Some(wake_up) = wake_ups.recv() => {
                if let WakeUp::Granted { token, .. } = &wake_up {
                    driver.coordinator.learn(*token);
                }
                Some(Input::WakeUp(wake_up))
            }
            Some((id, result)) = answered.recv() => {
                if result.is_err() {
                    driver.coordinator.metrics().store_errors.inc();
                }
                Some(Input::Answered(CommandId::new(id), result))
            }
            Ok(()) = status.changed() => {
                let is_up = status.borrow_and_update().is_up();
                is_up.then_some(Input::StoreUp)
            }
            () = alarm.rings() => None,
        };
        driver.step(input);
    }
}

impl Driver {
    fn now(&self) -> Moment {
        Moment::from_micros(0).after(self.begun.elapsed())
    }

    /// Takes in what has happened, refreshes what is due, and carries out what follows.
    fn step(&mut self, input: Option<Input>) {
        let context = Context {
            now: self.now(),
            owners: self.coordinator.registry(),
        };
        if let Some(input) = input {
            self.names.handle(input, context);
        }
        self.names.handle_timeout(context);
        while let Some(output) = self.names.poll_output() {
            self.carry_out(output);
        }
        self.counted.set(self.names.len());
    }

    fn carry_out(&self, output: Output) {
        let coordinator = &self.coordinator;
        match output {
            Output::Store { id, name, op } => {
                let answer = Answer::numbered(id.get(), Arc::clone(&self.answers));
                let command = coordinator.command(name, op);
                coordinator.store().send(command, answer);
            }
            Output::Tell(owner, RegistryEvent::Lost(loss)) => {
                if !coordinator.registry().take(&owner, loss) {
                    coordinator.audit().lost_by_caller(&owner, loss);
                }
            }
            Output::Tell(owner, RegistryEvent::Moved) => coordinator.registry().moved(&owner),
            Output::Tell(owner, event) => {
                if let RegistryEvent::Granted { token, permits, .. } = &event {
                    coordinator
                        .audit()
                        .granted(&owner, (*token, *permits), None);
                }
                coordinator.registry().deliver(&owner, event);
            }
            Output::Ask(owner, token, request) => {
                coordinator.registry().ask(&owner, token, request);
            }
            Output::Discard(name, owner) => coordinator.discard(&name, owner),
        }
    }
}

impl Owners for Registry {
    fn knows(&self, owner: &OwnerId) -> bool {
        self.knows(owner)
    }

    fn waits(&self, owner: &OwnerId) -> bool {
        self.waits(owner)
    }
}
