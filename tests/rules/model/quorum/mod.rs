//! Model of a quorum: three masters, each with the real rules of the lock's key, the real count of votes and the real standing of
//! a master that has forgotten everything. Clocks of the masters differ.
//!
//! The record of a token on each master is the model's own: the scripts of the masters have no counterpart in the rules.

mod attempt;
mod cases;
mod check;
mod master;
mod renewal;

use stateright::{Model, Property};

use self::{
    attempt::{Client, Phase},
    master::Master,
};

const EXCLUSION: &str = "no two clients believe in the lock at once";
const TOKENS: &str = "tokens rise";
const UNBROKEN: &str = "no grant lies between a hold's grant and its renewal";
const SERVED: &str = "a later attempt succeeds";
/// A state that must be reachable.
const BOTH: &str = "one client is granted the lock after the other";
/// Number of masters.
const MASTERS: usize = 3;

/// Flaw of a variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    /// The token that the masters proposed is revealed without writing it back.
    NoWriteBack,
    /// A master that has come back has a vote at once.
    VotesAtOnce,
    /// A renewal sets the hold again on a master that knows a newer token.
    RestoresAnyway,
    /// A renewal counts as one however late the masters' answers are heard.
    StandsForever,
}

/// Bounds of what happens.
#[derive(Clone, Debug)]
struct Quorum {
    clients: usize,
    /// Attempts of each client.
    attempts: u8,
    ttl: u8,
    /// Steps of time, of a second each.
    ticks: u8,
    /// Times that a master restarts, and forgets everything.
    restarts: u8,
    /// Answers that may be lost.
    losses: u8,
    /// Whether what takes an attempt or a hold back may arrive.
    takes_back: bool,
    /// How often the first client renews its hold, which it has at the start on two masters.
    renewals: u8,
    /// By how much the clock of each master is ahead (s).
    ahead: [i64; MASTERS],
    flaw: Option<Flaw>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    elapsed: u8,
    restarts: u8,
    losses: u8,
    renewals: u8,
    masters: [Master; MASTERS],
    clients: Vec<Client>,
    /// The largest token that was revealed.
    largest: i64,
    broken: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Begin(usize),
    /// The client's command of its present round arrives at this master, which answers.
    Ask(usize, usize),
    /// It arrives, and the answer is lost.
    AskUnheard(usize, usize),
    Renew(usize),
    /// The client's renewal arrives at this master, which answers.
    Extend(usize, usize),
    /// What sets a renewed hold again arrives late at this master.
    Restore(usize, usize),
    /// The client ends its hold. The releases are in flight.
    Release(usize),
    /// What takes the client's last attempt or hold back arrives at this master.
    TakeBack(usize, usize),
    Restart(usize),
    Tick,
}

impl Model for Quorum {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut state = State {
            elapsed: 0,
            restarts: 0,
            losses: 0,
            renewals: 0,
            masters: std::array::from_fn(|_| Master::default()),
            clients: vec![Client::default(); self.clients],
            largest: 0,
            broken: None,
        };
        if self.renewals > 0 {
            self.begin(&mut state, 0);
            for place in [0, 1, 0, 1] {
                self.ask(&mut state, 0, place, true);
            }
        }
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.broken.is_some() {
            return;
        }
        for (number, client) in state.clients.iter().enumerate() {
            match &client.phase {
                Phase::Idle if client.begun < self.attempts => {
                    actions.push(Action::Begin(number));
                }
                Phase::Idle => {}
                Phase::Proposes(round) | Phase::WritesBack(round, _) => {
                    // In the order of the masters: any order of two clients at each of them can come about with it.
                    if let Some(master) = (0..MASTERS).find(|master| round.is_pending(*master)) {
                        actions.push(Action::Ask(number, master));
                        if state.losses < self.losses {
                            actions.push(Action::AskUnheard(number, master));
                        }
                    }
                }
                Phase::Renews(renewal) => {
                    if let Some(master) = (0..MASTERS).find(|master| renewal.is_pending(*master)) {
                        actions.push(Action::Extend(number, master));
                    }
                }
                Phase::Holds { .. } => {
                    actions.push(Action::Release(number));
                    if number == 0 && state.renewals < self.renewals {
                        actions.push(Action::Renew(number));
                    }
                }
            }
            for master in client.taken_back.iter().flatten() {
                actions.push(Action::TakeBack(number, *master));
            }
            for master in client.restores.iter().flatten() {
                actions.push(Action::Restore(number, *master));
            }
        }
        if state.restarts < self.restarts {
            actions.extend((0..MASTERS).map(Action::Restart));
        }
        if state.elapsed < self.ticks {
            actions.push(Action::Tick);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Begin(client) => self.begin(&mut state, client),
            Action::Ask(client, master) => self.ask(&mut state, client, master, true),
            Action::AskUnheard(client, master) => {
                state.losses += 1;
                self.ask(&mut state, client, master, false);
            }
            Action::Renew(client) => self.renew(&mut state, client),
            Action::Extend(client, master) => self.extend(&mut state, client, master),
            Action::Restore(client, master) => self.restore_late(&mut state, client, master),
            Action::Release(client) => self.give_up(&mut state, client),
            Action::TakeBack(client, master) => self.take_back(&mut state, client, master),
            Action::Restart(master) => {
                state.restarts += 1;
                state.masters[master] = Master::restarted(state.elapsed, state.restarts);
            }
            Action::Tick => state.elapsed += 1,
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
            Property::always(TOKENS, |_, state: &State| state.broken != Some(TOKENS)),
            Property::always(UNBROKEN, |_, state: &State| state.broken != Some(UNBROKEN)),
            Property::always(SERVED, |_, state: &State| state.broken != Some(SERVED)),
            Property::sometimes(BOTH, |_, state: &State| {
                let holds = |client: &Client| matches!(client.phase, Phase::Holds { .. });
                state.clients.iter().all(holds)
            }),
        ]
    }
}
