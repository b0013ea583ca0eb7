//! Model of the rules of one lock: clients at two coordinators, modes, expiry, hand-offs, a coordinator that dies, and a store
//! whose clock steps back.

mod cases;
mod check;
mod state;

use std::time::Duration;

use leasehold_core::{
    command::{Acquire, Caller, End, Executed, Handed, Op, Reply},
    id::{FencingToken, OwnerId},
    lock::LockState,
    mode::Mode,
};
use stateright::{Model, Property};

use self::state::{Client, Phase, State};
use crate::common::{acquire, caller, seconds, view};

/// Coordinators that clients may be at.
const COORDINATORS: usize = 2;
/// Time of the store's clock at the start (s).
const START: i64 = 100;
/// Time between two refreshes of a name (s).
const REFRESH: u8 = 1;

const EXCLUSION: &str = "holds that exclude each other never overlap";
const TOKENS: &str = "tokens rise";
const ORDER: &str = "waiters are served in order";
const UNBROKEN: &str = "no grant lies between a hold's grant and its renewal";
const SERVED: &str = "every waiter is served in the end, and in time";
const FORGOTTEN: &str = "nothing is left behind";
/// States that must be reachable.
const CONFIRMED: &str = "a hand-off to another coordinator is confirmed";
const EXPIRED: &str = "a hold expires while others wait";

/// Flaw of a variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    /// The lock is set without an expiry, which follows in a second command (row 1).
    ExpiryFollows,
    /// A release deletes whatever hold there is (row 3).
    NoOwner,
    /// A release looks for its hold first, and deletes what is there in a second command (row 6).
    CompareThenDelete,
    /// A hand-off to another coordinator lasts for the TTL from the start.
    NoClaimTime,
    /// The record of a token expires after the memory from now, though the token may be ahead of the clock.
    RecordFromNow,
    /// A renewal that finds no hold sets it again.
    RenewalSets,
}

/// Clients, and bounds of what happens.
#[derive(Clone, Debug)]
struct Rules {
    clients: Vec<Plan>,
    ttl: u8,
    lock_delay: u8,
    /// Time for which the store remembers a token (s).
    memory: u8,
    /// Steps of time, of a second each.
    ticks: u8,
    /// Seconds by which the store's clock may step back, once: while the store remembers a token. Afterwards it steps back by
    /// less than the memory.
    step_back: i64,
    /// Whether coordinators keep a floor.
    has_floors: bool,
    /// Whether a coordinator may die.
    may_die: bool,
    flaw: Option<Flaw>,
}

/// A client: where it is, and what it acquires, one after the other.
#[derive(Clone, Debug)]
struct Plan {
    coordinator: usize,
    acquires: Vec<(Mode, bool)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Acquire(usize),
    Confirm(usize),
    Renew(usize),
    Release(usize, End),
    /// Sets the expiry in a command of its own.
    Expire(usize),
    /// Deletes the lock in a command of its own.
    Delete(usize),
    /// A second passes; these coordinators refresh the name.
    Tick([bool; COORDINATORS]),
    StepBack,
    Die(usize),
}

impl Rules {
    fn at(&self, client: usize) -> usize {
        self.clients[client].coordinator
    }

    /// Executes a command of a coordinator, and takes in what it hands on.
    fn execute(&self, state: &mut State, by: usize, op: &Op) -> Reply {
        let caller = Caller {
            floor: FencingToken::new(state.floors[by]),
            ..caller(by, self.memory)
        };
        let now = state.now();
        let Executed { reply, handed, .. } = state.lock.apply(&caller, op, now);
        for Handed { owner, token, .. } in handed {
            let number = state.clients.len();
            let client = (0..number).find(|client| state.owner(*client) == owner);
            // One that stopped waiting has left the queue.
            let client = client.expect("a grant is for a client");
            self.granted(state, client, by, token);
        }
        reply
    }

    /// Takes in a grant that a command of this coordinator made.
    fn granted(&self, state: &mut State, client: usize, by: usize, token: FencingToken) {
        let token = token.get();
        self.check_order(state, client);
        if token <= state.largest {
            state.broken = state.broken.or(Some(TOKENS));
        }
        state.largest = state.largest.max(token);
        state.record_ends = state.at + i64::from(self.memory);
        state.order.retain(|other| *other != client);
        let here = self.at(client);
        self.learn(state, by, token);
        if here == by {
            let until = state.elapsed + self.ttl;
            state.clients[client].phase = match self.flaw {
                Some(Flaw::ExpiryFollows) => Phase::WithoutExpiry(token),
                _ => Phase::Holds(token, until),
            };
            return;
        }
        state.clients[client].phase = Phase::Handed(token);
        if self.flaw == Some(Flaw::NoClaimTime) {
            let renew = self.renew(state, client);
            self.execute(state, here, &renew);
        }
    }

    fn learn(&self, state: &mut State, coordinator: usize, token: i64) {
        if self.has_floors {
            state.floors[coordinator] = state.floors[coordinator].max(token + 1);
        }
    }

    fn renew(&self, state: &State, client: usize) -> Op {
        Op::Renew {
            token: None,
            owner: state.owner(client),
            ttl: seconds(self.ttl),
        }
    }

    fn begin(&self, state: &mut State, client: usize, again: bool) {
        let begun = &mut state.clients[client].begun;
        *begun += u8::from(!again);
        let (mode, wait) = self.clients[client].acquires[usize::from(*begun) - 1];
        let ttl = match self.flaw {
            Some(Flaw::ExpiryFollows) => Duration::from_secs(3600),
            _ => seconds(self.ttl),
        };
        let here = self.at(client);
        let acquire = Op::Acquire(Acquire {
            mode,
            ttl,
            lock_delay: seconds(self.lock_delay),
            wait,
            again,
            ..acquire(client, state.owner(client), self.ttl)
        });
        if wait {
            state.refreshed[here] = state.elapsed;
        }
        match self.execute(state, here, &acquire) {
            Reply::Granted { token, .. } => self.granted(state, client, here, token),
            Reply::Queued { .. } => {
                if !state.order.contains(&client) {
                    state.order.push(client);
                }
                state.clients[client].phase = Phase::Waiting;
            }
            Reply::Busy { .. } | Reply::Lost(_) => state.clients[client].phase = Phase::Idle,
            other => panic!("an acquire was answered by {other:?}"),
        }
    }

    fn extend(&self, state: &mut State, client: usize, token: i64) {
        let (here, op) = (self.at(client), self.renew(state, client));
        match self.execute(state, here, &op) {
            Reply::Renewed => {
                state.was_confirmed = matches!(state.clients[client].phase, Phase::Handed(_));
                self.learn(state, here, token);
                state.record_ends = state.record_ends.max(state.at + i64::from(self.memory));
                let until = state.elapsed + self.ttl;
                state.clients[client].phase = Phase::Holds(token, until);
            }
            Reply::Lost(_) if matches!(state.clients[client].phase, Phase::Handed(_)) => {
                self.begin(state, client, true);
            }
            Reply::Lost(_) if self.flaw == Some(Flaw::RenewalSets) => {
                self.begin(state, client, true);
                if let Phase::Holds(_, until) = state.clients[client].phase {
                    // It is renewed: its client knows of no other token.
                    state.clients[client].phase = Phase::Holds(token, until);
                }
            }
            Reply::Lost(_) => state.clients[client].phase = Phase::Idle,
            other => panic!("a renewal was answered by {other:?}"),
        }
    }

    fn release(&self, state: &mut State, client: usize, owner: OwnerId, end: End) {
        state.order.retain(|other| *other != client);
        state.clients[client].phase = Phase::Idle;
        let reply = self.execute(state, self.at(client), &Op::Release { owner, end });
        assert!(matches!(reply, Reply::Released { .. }), "{reply:?}");
    }

    /// Releases whatever hold there is.
    fn delete(&self, state: &mut State, client: usize) {
        let holder = state.holders().first().map(|(owner, _)| *owner);
        let holder = holder.unwrap_or_else(|| state.owner(client));
        self.release(state, client, holder, End::Clean);
    }

    fn tick(&self, state: &mut State, refresh: [bool; COORDINATORS]) {
        state.elapsed += 1;
        state.at += 1;
        if self.flaw == Some(Flaw::RecordFromNow)
            && state.at >= state.record_ends
            && !state.lock.in_use(state.now())
        {
            state.lock = LockState::default();
        }
        for by in (0..COORDINATORS).filter(|by| refresh[*by]) {
            state.refreshed[by] = state.elapsed;
            let mut waiting = state.order.clone();
            waiting.retain(|client| self.at(*client) == by);
            let oldest = waiting.first().map(|client| state.owner(*client));
            let reply = self.execute(state, by, &Op::Refresh { oldest });
            let Reply::Refreshed { attached, .. } = reply else {
                panic!("a refresh was answered by {reply:?}");
            };
            if !attached {
                for client in waiting {
                    self.begin(state, client, true);
                }
            }
        }
    }
}

impl Model for Rules {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let client = Client {
            begun: 0,
            phase: Phase::Idle,
        };
        vec![State {
            lock: LockState::default(),
            at: START,
            elapsed: 0,
            has_stepped: false,
            dead: None,
            floors: [0; COORDINATORS],
            clients: vec![client; self.clients.len()],
            largest: 0,
            order: Vec::new(),
            refreshed: [0; COORDINATORS],
            record_ends: 0,
            was_confirmed: false,
            broken: None,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.broken.is_some() {
            return;
        }
        for (number, client) in state.clients.iter().enumerate() {
            let plan = &self.clients[number];
            if !state.lives(plan.coordinator) {
                continue;
            }
            match client.phase {
                Phase::Idle if usize::from(client.begun) < plan.acquires.len() => {
                    actions.push(Action::Acquire(number));
                }
                Phase::Idle => {}
                Phase::Waiting => actions.push(Action::Release(number, End::Clean)),
                Phase::Handed(_) => {
                    actions.push(Action::Confirm(number));
                    actions.push(Action::Release(number, End::Clean));
                }
                Phase::Holds(..) => {
                    actions.push(Action::Renew(number));
                    actions.push(Action::Release(number, End::Clean));
                    if self.lock_delay > 0 {
                        actions.push(Action::Release(number, End::Unclean));
                    }
                }
                Phase::WithoutExpiry(_) => actions.push(Action::Expire(number)),
                Phase::Compared => actions.push(Action::Delete(number)),
            }
        }
        if state.elapsed < self.ticks {
            for refresh in [[true, true], [true, false], [false, true], [false, false]] {
                if (0..COORDINATORS).all(|by| !refresh[by] || state.lives(by)) {
                    actions.push(Action::Tick(refresh));
                }
            }
        }
        if self.step_back > 0 && !state.has_stepped {
            actions.push(Action::StepBack);
        }
        if self.may_die && state.dead.is_none() {
            actions.extend((0..COORDINATORS).map(Action::Die));
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        state.was_confirmed = false;
        match action {
            Action::Acquire(client) => self.begin(&mut state, client, false),
            Action::Confirm(client) | Action::Renew(client) | Action::Expire(client) => {
                let phase = state.clients[client].phase;
                let (Phase::Handed(token) | Phase::Holds(token, _) | Phase::WithoutExpiry(token)) =
                    phase
                else {
                    return None;
                };
                self.extend(&mut state, client, token);
            }
            Action::Release(client, end) => {
                let owner = state.owner(client);
                let holds = matches!(state.clients[client].phase, Phase::Holds(..));
                match self.flaw {
                    Some(Flaw::NoOwner) if holds => self.delete(&mut state, client),
                    Some(Flaw::CompareThenDelete) if holds => {
                        let held = state.holders().iter().any(|(holder, _)| *holder == owner);
                        state.clients[client].phase = match held {
                            true => Phase::Compared,
                            false => Phase::Idle,
                        };
                    }
                    _ => self.release(&mut state, client, owner, end),
                }
            }
            Action::Delete(client) => self.delete(&mut state, client),
            Action::Tick(refresh) => self.tick(&mut state, refresh),
            Action::StepBack => {
                state.has_stepped = true;
                state.at -= match view(&state.lock, state.now()).token {
                    Some(_) => self.step_back,
                    None => self.step_back.min(i64::from(self.memory) - 1),
                };
            }
            Action::Die(by) => state.dead = Some(by),
        }
        self.check(&mut state);
        state.broken = state.broken.or_else(|| self.settle(&state));
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(EXCLUSION, |_, state: &State| {
                state.broken != Some(EXCLUSION)
            }),
            Property::always(TOKENS, |_, state: &State| state.broken != Some(TOKENS)),
            Property::always(ORDER, |_, state: &State| state.broken != Some(ORDER)),
            Property::always(UNBROKEN, |_, state: &State| state.broken != Some(UNBROKEN)),
            Property::always(SERVED, |_, state: &State| state.broken != Some(SERVED)),
            Property::always(FORGOTTEN, |_, state: &State| {
                state.broken != Some(FORGOTTEN)
            }),
            Property::sometimes(CONFIRMED, |_, state: &State| state.was_confirmed),
        ];
        if self.ttl <= self.ticks {
            properties.push(Property::sometimes(EXPIRED, Self::has_expired));
        }
        properties
    }
}
