//! Execution of what the machine for contended names says, on the world's time.

use std::time::Duration;

use leasehold_core::{
    command::{Op, Reply, Stamped, WakeUp},
    contention::{Context, Input, Output},
    name::LockName,
    session::RegistryEvent,
};

use crate::{
    store::{Destination, Run},
    world::World,
};

impl World {
    /// Takes in what happens to contended names, and carries out what follows.
    pub(crate) fn contend(&mut self, by: Run, input: Input) {
        self.touch_coordinator(by.0);
        let now = self.moment();
        let coordinator = &mut self.coordinators[by.0];
        let owners = &coordinator.registry;
        coordinator.contended.handle(input, Context { now, owners });
        self.carry_out_contended(by);
    }

    /// Refreshes the names whose time has come.
    pub(crate) fn run_contention(&mut self, number: usize) {
        let (now, run) = (self.moment(), self.run(number));
        let coordinator = &mut self.coordinators[number];
        let due = coordinator.contended.next_timeout();
        if due.is_some_and(|due| due <= now) {
            let owners = &coordinator.registry;
            let context = Context { now, owners };
            coordinator.contended.handle_timeout(context);
            self.touch_coordinator(number);
            self.carry_out_contended(run);
        }
    }

    fn carry_out_contended(&mut self, by: Run) {
        while let Some(output) = self.coordinators[by.0].contended.poll_output() {
            match output {
                Output::Store { id, name, op } => {
                    self.seen.joined_again += u64::from(matches!(op, Op::Acquire(_)));
                    self.send(by, Destination::Contention(id), name, op);
                }
                Output::Tell(owner, event) => {
                    self.seen.confirmed +=
                        u64::from(matches!(event, RegistryEvent::Granted { .. }));
                    let registry = &self.coordinators[by.0].registry;
                    match event {
                        RegistryEvent::Lost(loss) => {
                            registry.take(&owner, loss);
                        }
                        RegistryEvent::Moved => registry.moved(&owner),
                        event => {
                            registry.deliver(&owner, event);
                        }
                    }
                }
                Output::Ask(owner, token, request) => {
                    let registry = &self.coordinators[by.0].registry;
                    registry.ask(&owner, token, request);
                }
                Output::Discard(name, owner) => self.discard(by, &name, owner),
            }
        }
    }

    /// Has a name refreshed when what is in its way will be gone.
    pub(crate) fn recheck(&mut self, by: Run, name: &LockName, after: Duration) {
        let name = name.clone();
        self.contend(by, Input::Recheck { name, after });
    }

    pub(crate) fn on_wake_up(&mut self, by: Run, wake_up: WakeUp) {
        if let WakeUp::Granted { token, .. } = &wake_up {
            self.coordinators[by.0].learn(*token);
        }
        self.contend(by, Input::WakeUp(wake_up));
    }

    /// Takes in what came with a reply: each grant goes to the waiter that it is for.
    pub(crate) fn note(&mut self, by: Run, name: &LockName, stamped: &Stamped) {
        let coordinator = &mut self.coordinators[by.0];
        if let Reply::Granted { token, .. } | Reply::Resumed { token, .. } = stamped.executed.reply
        {
            coordinator.learn(token);
        }
        let mut strangers = Vec::new();
        for handed in &stamped.executed.handed {
            coordinator.learn(handed.token);
            if handed.coordinator != coordinator.id {
                continue;
            }
            let granted = RegistryEvent::Granted {
                token: handed.token,
                permits: handed.permits.map(std::num::NonZeroU32::get),
                sent_at: stamped.sent_at,
            };
            if !coordinator.registry.deliver(&handed.owner, granted)
                && handed.of_session
                && !coordinator.registry.knows(&handed.owner)
            {
                strangers.push(handed.owner);
            }
        }
        for owner in strangers {
            self.discard(by, name, owner);
        }
        if stamped.executed.more {
            let name = name.clone();
            self.contend(by, Input::Look { name });
        }
    }
}
