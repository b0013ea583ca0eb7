//! One coordinator: its machine for contended names, the owner ids that it knows, and its commands in flight.

use std::{
    collections::{BTreeMap, VecDeque},
    hash::{Hash, Hasher},
};

use leasehold_core::{
    command::{Op, Stamped},
    contention::{ContendedNames, Context, Input, Output, Owners},
    failure::StoreError,
    id::OwnerId,
    session::{CommandId, RegistryEvent},
    time::Moment,
};

use super::{Flaw, HandOffs, State};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Coordinator {
    pub(super) names: ContendedNames,
    pub(super) registry: BTreeMap<OwnerId, Known>,
    /// Commands in the order of their sending, which is that of their arrival, with the times of sending (s since the start).
    pub(super) in_flight: VecDeque<(CommandId, Op, u8)>,
}

/// What a session of the coordinator has under an owner id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Known {
    Waits,
    /// It holds the lock, and its client believes in it until then (s since the start).
    Holds {
        until: u8,
    },
}

impl Hash for Coordinator {
    /// Hashes commands in their order, but not their ids.
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.names, &self.registry, self.in_flight.len()).hash(state);
        for (_, op, sent) in &self.in_flight {
            (op, sent).hash(state);
        }
    }
}

/// The owner ids of a coordinator.
struct Registry<'a>(&'a BTreeMap<OwnerId, Known>);

impl Owners for Registry<'_> {
    fn knows(&self, owner: &OwnerId) -> bool {
        self.0.contains_key(owner)
    }

    fn waits(&self, owner: &OwnerId) -> bool {
        self.0.get(owner) == Some(&Known::Waits)
    }
}

impl HandOffs {
    /// Takes in what happens to the name at a coordinator, and carries out what follows.
    pub(super) fn contend(&self, state: &mut State, by: usize, input: Input) {
        let now = state.moment();
        if let Some(coordinator) = &mut state.coordinators[by] {
            let owners = &Registry(&coordinator.registry);
            coordinator.names.handle(input, Context { now, owners });
        }
        self.carry_out(state, by);
    }

    pub(super) fn run_timers(&self, state: &mut State, by: usize) {
        let now = state.moment();
        if let Some(coordinator) = &mut state.coordinators[by] {
            let owners = &Registry(&coordinator.registry);
            coordinator.names.handle_timeout(Context { now, owners });
        }
        self.carry_out(state, by);
    }

    fn carry_out(&self, state: &mut State, by: usize) {
        loop {
            let sent = state.elapsed;
            let Some(coordinator) = &mut state.coordinators[by] else {
                return;
            };
            match coordinator.names.poll_output() {
                None => return,
                Some(Output::Store {
                    op: Op::Refresh { .. },
                    ..
                }) if self.flaw == Some(Flaw::NoRefresh) => {}
                Some(Output::Store { id, op, .. }) => {
                    coordinator.in_flight.push_back((id, op, sent));
                }
                Some(Output::Tell(owner, RegistryEvent::Granted { sent_at, .. })) => {
                    let client = self.client(owner);
                    let sent = sent_at.as_micros() / 1_000_000;
                    self.deliver(state, client, u8::try_from(sent).unwrap());
                }
                // The session gives the grant back, and its client is told of the failure.
                Some(Output::Tell(owner, RegistryEvent::GrantFailed(_))) => {
                    let client = self.client(owner);
                    self.end(state, client);
                }
                Some(Output::Discard(_, owner)) => self.discard(state, by, owner),
                Some(other) => panic!("the machine gave {other:?}"),
            }
        }
    }

    /// Carries out the next command of a coordinator, and delivers its reply or loses it.
    pub(super) fn execute(&self, state: &mut State, by: usize, is_answered: bool) {
        let Some((id, op, sent)) = self.next(state, by) else {
            return;
        };
        let executed = self.store(state, by, &op);
        if !is_answered {
            return self.fail(state, by, id);
        }
        self.note(state, by, &executed, sent);
        let sent_at = Moment::from_micros(u64::from(sent) * 1_000_000);
        let stamped = Stamped { executed, sent_at };
        self.contend(state, by, Input::Answered(id, Ok(stamped)));
    }

    /// Loses the next command of a coordinator.
    pub(super) fn lose(&self, state: &mut State, by: usize) {
        if let Some((id, ..)) = self.next(state, by) {
            self.fail(state, by, id);
        }
    }

    fn next(&self, state: &mut State, by: usize) -> Option<(CommandId, Op, u8)> {
        state.coordinators[by].as_mut()?.in_flight.pop_front()
    }

    fn fail(&self, state: &mut State, by: usize, id: CommandId) {
        let error = StoreError::Indeterminate {
            reason: String::new(),
        };
        self.contend(state, by, Input::Answered(id, Err(error)));
    }
}
