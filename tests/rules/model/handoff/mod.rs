//! Model of hand-offs between two coordinators: the real machines for contended names over the real rules, with wake-ups that come
//! late or never, commands and replies that are lost, clients that give up, and a coordinator that dies.

mod cases;
mod check;
mod coordinator;

use std::collections::BTreeSet;

use leasehold_core::{
    command::{Acquire, End, Executed, Handed, Op, Reply, WakeUp},
    contention::Input,
    id::{FencingToken, OwnerId},
    lock::LockState,
    name::LockName,
    session::TrackedWait,
    time::{Moment, StoreTime},
};
use stateright::{Model, Property};

use self::coordinator::{Coordinator, Known};
use crate::common::{acquire, caller, owner};

const EXCLUSION: &str = "a client that believes in its hold has it";
const SERVED: &str = "every waiter is served in the end";
const FORGOTTEN: &str = "nothing is left behind";
/// A state that must be reachable.
const CONFIRMED: &str = "a hand-off to the other coordinator is confirmed";

/// Flaw of a variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    /// A wake-up counts as the grant, and is not confirmed.
    Unconfirmed,
    /// Coordinators do not refresh the name.
    NoRefresh,
}

/// Clients, and bounds of what happens.
#[derive(Clone, Debug)]
struct HandOffs {
    /// The coordinator of each client. The first client holds the lock at the start.
    clients: Vec<usize>,
    ttl: u8,
    /// Steps of time, of a second each.
    ticks: u8,
    /// Commands that may be lost, or whose replies may be.
    losses: u8,
    may_die: bool,
    may_give_up: bool,
    flaw: Option<Flaw>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    lock: LockState,
    /// Seconds since the start, by all clocks.
    elapsed: u8,
    losses: u8,
    coordinators: [Option<Coordinator>; 2],
    /// Clients that have not asked yet.
    idle: BTreeSet<usize>,
    /// Wake-ups in flight: the waiter, and its token.
    wake_ups: BTreeSet<(usize, i64)>,
    broken: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Acquire(usize),
    Release(usize),
    /// A client that waits gives up.
    GiveUp(usize),
    /// The next command of this coordinator is carried out.
    Execute(usize),
    /// The next command of this coordinator is carried out, and its reply is lost.
    LoseReply(usize),
    /// The next command of this coordinator is lost.
    LoseCommand(usize),
    WakeUp(usize, i64),
    Die(usize),
    Tick,
}

pub(crate) fn name() -> LockName {
    LockName::parse("lock").unwrap()
}

impl State {
    fn now(&self) -> StoreTime {
        StoreTime::from_micros((100 + i64::from(self.elapsed)) * 1_000_000)
    }

    fn moment(&self) -> Moment {
        Moment::from_micros(u64::from(self.elapsed) * 1_000_000)
    }
}

impl HandOffs {
    fn known(&self, state: &State, client: usize) -> Option<Known> {
        let coordinator = state.coordinators[self.clients[client]].as_ref()?;
        coordinator.registry.get(&owner(client, 0)).copied()
    }

    fn set_known(&self, state: &mut State, client: usize, known: Option<Known>) {
        let registry = state.coordinators[self.clients[client]].as_mut();
        let registry = &mut registry.expect("it lives").registry;
        match known {
            Some(known) => registry.insert(owner(client, 0), known),
            None => registry.remove(&owner(client, 0)),
        };
    }

    fn client(&self, of: OwnerId) -> usize {
        let mut all = 0..self.clients.len();
        all.find(|client| owner(*client, 0) == of).unwrap()
    }

    fn acquire(&self, client: usize) -> Acquire {
        acquire(client, owner(client, 0), self.ttl)
    }

    /// Carries out a command in the store. Wake-ups of the other coordinator's waiters are in flight from here on.
    fn store(&self, state: &mut State, by: usize, op: &Op) -> Executed {
        let caller = caller(by, 2 * self.ttl);
        let now = state.now();
        let executed = state.lock.apply(&caller, op, now);
        for Handed { owner, token, .. } in &executed.handed {
            let client = self.client(*owner);
            if self.clients[client] != by {
                state.wake_ups.insert((client, token.get()));
            }
        }
        executed
    }

    /// Takes in the grants to waiters of the same coordinator that came with a reply.
    fn note(&self, state: &mut State, by: usize, executed: &Executed, sent: u8) {
        for Handed { owner, .. } in &executed.handed {
            let client = self.client(*owner);
            if self.clients[client] == by && !self.deliver(state, client, sent) {
                self.discard(state, by, *owner);
            }
        }
    }

    /// Gives a grant to its waiter, of a command that was sent then. Returns false if nobody knows of it.
    fn deliver(&self, state: &mut State, client: usize, sent: u8) -> bool {
        let known = self.known(state, client);
        if known == Some(Known::Waits) {
            let until = sent + self.ttl;
            self.set_known(state, client, Some(Known::Holds { until }));
            self.gone(state, client);
        }
        known.is_some()
    }

    fn gone(&self, state: &mut State, client: usize) {
        let input = Input::Gone {
            name: name(),
            owner: owner(client, 0),
        };
        self.contend(state, self.clients[client], input);
    }

    /// Hands on a grant that nobody here knows of.
    fn discard(&self, state: &mut State, by: usize, owner: OwnerId) {
        let end = End::Clean;
        let executed = self.store(state, by, &Op::Release { owner, end });
        let sent = state.elapsed;
        self.note(state, by, &executed, sent);
    }

    fn begin(&self, state: &mut State, client: usize) {
        state.idle.remove(&client);
        let (by, sent) = (self.clients[client], state.elapsed);
        let acquire = self.acquire(client);
        self.set_known(state, client, Some(Known::Waits));
        let executed = self.store(state, by, &Op::Acquire(acquire.clone()));
        match executed.reply {
            Reply::Granted { .. } => {
                let until = sent + self.ttl;
                self.set_known(state, client, Some(Known::Holds { until }));
            }
            Reply::Queued { expires_in, .. } => {
                let wait = TrackedWait {
                    name: name(),
                    acquire: acquire.into(),
                    expires_in,
                };
                self.contend(state, by, Input::Waits(wait));
            }
            ref other => panic!("an acquire was answered by {other:?}"),
        }
        self.note(state, by, &executed, sent);
    }

    /// Ends a hold or a wait: the session forgets it, and releases what there may be.
    fn end(&self, state: &mut State, client: usize) {
        self.set_known(state, client, None);
        self.gone(state, client);
        self.discard(state, self.clients[client], owner(client, 0));
    }

    fn wake_up(&self, state: &mut State, client: usize, token: i64) {
        if self.flaw == Some(Flaw::Unconfirmed) {
            let sent = state.elapsed;
            self.deliver(state, client, sent);
            return;
        }
        let wake_up = WakeUp::Granted {
            name: name(),
            owner: owner(client, 0),
            token: FencingToken::new(token),
            permits: None,
            of_session: true,
        };
        self.contend(state, self.clients[client], Input::WakeUp(wake_up));
    }

    fn tick(&self, state: &mut State) {
        state.elapsed += 1;
        for by in 0..state.coordinators.len() {
            self.run_timers(state, by);
        }
    }
}

impl Model for HandOffs {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut state = State {
            lock: LockState::default(),
            elapsed: 0,
            losses: 0,
            coordinators: [Some(Coordinator::default()), Some(Coordinator::default())],
            idle: (0..self.clients.len()).collect(),
            wake_ups: BTreeSet::new(),
            broken: None,
        };
        self.begin(&mut state, 0);
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.broken.is_some() {
            return;
        }
        for (client, by) in self.clients.iter().enumerate() {
            if state.coordinators[*by].is_none() {
                continue;
            }
            match self.known(state, client) {
                _ if state.idle.contains(&client) => actions.push(Action::Acquire(client)),
                Some(Known::Holds { .. }) => actions.push(Action::Release(client)),
                Some(Known::Waits) if self.may_give_up => actions.push(Action::GiveUp(client)),
                Some(Known::Waits) | None => {}
            }
        }
        for (by, coordinator) in state.coordinators.iter().enumerate() {
            let Some(coordinator) = coordinator else {
                continue;
            };
            if !coordinator.in_flight.is_empty() {
                actions.push(Action::Execute(by));
                if state.losses < self.losses {
                    actions.push(Action::LoseReply(by));
                    actions.push(Action::LoseCommand(by));
                }
            }
            if self.may_die && state.coordinators.iter().all(Option::is_some) {
                actions.push(Action::Die(by));
            }
        }
        for (client, token) in &state.wake_ups {
            actions.push(Action::WakeUp(*client, *token));
        }
        if state.elapsed < self.ticks {
            actions.push(Action::Tick);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Acquire(client) => self.begin(&mut state, client),
            Action::Release(client) | Action::GiveUp(client) => self.end(&mut state, client),
            Action::Execute(by) => self.execute(&mut state, by, true),
            Action::LoseReply(by) => {
                state.losses += 1;
                self.execute(&mut state, by, false);
            }
            Action::LoseCommand(by) => {
                state.losses += 1;
                self.lose(&mut state, by);
            }
            Action::WakeUp(client, token) => {
                state.wake_ups.remove(&(client, token));
                self.wake_up(&mut state, client, token);
            }
            Action::Die(by) => {
                state.coordinators[by] = None;
                state
                    .wake_ups
                    .retain(|(client, _)| self.clients[*client] != by);
            }
            Action::Tick => self.tick(&mut state),
        }
        self.check(&mut state);
        state.broken = state.broken.or_else(|| self.settle(&state));
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(EXCLUSION, |_, state: &State| {
                state.broken != Some(EXCLUSION)
            }),
            Property::always(SERVED, |_, state: &State| state.broken != Some(SERVED)),
            Property::always(FORGOTTEN, |_, state: &State| {
                state.broken != Some(FORGOTTEN)
            }),
            Property::sometimes(CONFIRMED, |model, state: &State| {
                matches!(model.known(state, 1), Some(Known::Holds { .. }))
            }),
        ]
    }
}
