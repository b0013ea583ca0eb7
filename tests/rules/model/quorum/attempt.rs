//! Attempts of an acquire: two rounds, and what takes back a failed one or a hold.

use leasehold_core::time::StoreTime;
use leasehold_store::quorum::decide::{self, Tally, Verdict, Vote};

use super::{EXCLUSION, Flaw, MASTERS, Quorum, State, TOKENS, renewal::Renewal};
use crate::common::owner;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Client {
    pub(super) begun: u8,
    pub(super) phase: Phase,
    /// Masters at which the last attempt or hold is yet to be taken back, if that arrives at all.
    pub(super) taken_back: [Option<usize>; MASTERS],
    /// Whether that is a hold: its release raises the tokens above its own.
    was_held: bool,
    /// Masters at which the renewed hold is yet to be set again, if that arrives at all, and its token.
    pub(super) restores: [Option<usize>; MASTERS],
    pub(super) token: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    #[default]
    Idle,
    Proposes(Round),
    /// Writes the token back.
    WritesBack(Round, i64),
    /// Believes in the lock until then (s since the start).
    Holds {
        until: u8,
    },
    Renews(Renewal),
}

impl Phase {
    /// Returns until when the client believes in the lock, if it does.
    pub(super) fn until(&self) -> Option<u8> {
        match self {
            Self::Holds { until } => Some(*until),
            Self::Renews(renewal) => Some(renewal.until),
            Self::Idle | Self::Proposes(_) | Self::WritesBack(..) => None,
        }
    }
}

/// One question to all masters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Round {
    /// When the first round of the attempt was sent (s since the start).
    sent: u8,
    /// Each master's vote, and the token that it proposed.
    votes: [Option<(Ballot, i64)>; MASTERS],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Ballot {
    Yes,
    No,
    Out,
}

impl Round {
    fn new(sent: u8) -> Self {
        Self {
            sent,
            votes: [None; MASTERS],
        }
    }

    pub(super) fn is_pending(&self, master: usize) -> bool {
        self.votes[master].is_none()
    }

    fn verdict(&self) -> Option<Verdict> {
        let mut tally = Tally::new(MASTERS);
        for (ballot, _) in self.votes.iter().flatten() {
            tally.count(match ballot {
                Ballot::Yes => Vote::Yes,
                Ballot::No => Vote::No,
                Ballot::Out => Vote::Out,
            });
        }
        tally.attempt()
    }

    /// Returns the token to write back: that of the masters without a vote counts too.
    fn token(&self) -> i64 {
        decide::token(self.votes.iter().flatten().map(|(_, token)| *token), None)
    }
}

impl Quorum {
    pub(super) fn now(&self, state: &State, master: usize) -> StoreTime {
        let now = 100 + i64::from(state.elapsed) + self.ahead[master];
        StoreTime::from_micros(now * 1_000_000)
    }

    pub(super) fn begin(&self, state: &mut State, client: usize) {
        let round = Round::new(state.elapsed);
        let client = &mut state.clients[client];
        client.begun += 1;
        client.taken_back = [None; MASTERS];
        client.restores = [None; MASTERS];
        client.phase = Phase::Proposes(round);
    }

    /// Has a command of the client's round arrive at a master, and counts its answer if that is heard.
    pub(super) fn ask(&self, state: &mut State, client: usize, place: usize, is_heard: bool) {
        let now = self.now(state, place);
        let counts = is_heard && self.has_vote(&state.masters[place], state.elapsed);
        let owner = owner(client, state.clients[client].begun);
        let master = &mut state.masters[place];
        let (said, token) = match &state.clients[client].phase {
            Phase::Proposes(_) => {
                let token = master.propose(owner, self.ttl, now);
                (token.is_some(), token.unwrap_or(0))
            }
            Phase::WritesBack(_, token) => (master.write_back(owner, *token, now), 0),
            Phase::Idle | Phase::Holds { .. } | Phase::Renews(_) => return,
        };
        let ballot = match (counts, said) {
            (false, _) => Ballot::Out,
            (true, true) => Ballot::Yes,
            (true, false) => Ballot::No,
        };
        let token = if is_heard { token } else { 0 };
        let (Phase::Proposes(round) | Phase::WritesBack(round, _)) =
            &mut state.clients[client].phase
        else {
            return;
        };
        round.votes[place] = Some((ballot, token));
        self.decide(state, client);
    }

    /// Goes on with an attempt once its round is decided.
    fn decide(&self, state: &mut State, client: usize) {
        let phase = state.clients[client].phase.clone();
        let (Phase::Proposes(round) | Phase::WritesBack(round, _)) = &phase else {
            return;
        };
        let until = round.sent + self.ttl;
        match (round.verdict(), &phase) {
            (None, _) => {}
            (Some(Verdict::Agreed), Phase::Proposes(_)) if self.flaw == Some(Flaw::NoWriteBack) => {
                self.reveal(state, client, round.token(), until);
            }
            (Some(Verdict::Agreed), Phase::Proposes(_)) => {
                let second = Round::new(round.sent);
                state.clients[client].phase = Phase::WritesBack(second, round.token());
            }
            (Some(Verdict::Agreed), Phase::WritesBack(_, token)) if state.elapsed < until => {
                self.reveal(state, client, *token, until);
            }
            _ => self.give_up(state, client),
        }
    }

    /// Tells a client of its grant.
    fn reveal(&self, state: &mut State, client: usize, token: i64, until: u8) {
        state.clients[client].phase = Phase::Holds { until };
        state.clients[client].token = token;
        if token <= state.largest {
            state.broken = Some(TOKENS);
        }
        state.largest = state.largest.max(token);
    }

    /// Ends an attempt or a hold: what takes it back at each master is in flight.
    pub(super) fn give_up(&self, state: &mut State, client: usize) {
        let client = &mut state.clients[client];
        client.was_held = client.phase.until().is_some();
        client.phase = Phase::Idle;
        if self.takes_back {
            client.taken_back = std::array::from_fn(Some);
        }
    }

    pub(super) fn take_back(&self, state: &mut State, client: usize, place: usize) {
        let now = self.now(state, place);
        let owner = owner(client, state.clients[client].begun);
        state.clients[client].taken_back[place] = None;
        let was_held = state.clients[client].was_held;
        state.masters[place].release(owner, was_held, now);
    }

    pub(super) fn check(&self, state: &mut State) {
        let believes = |client: &&Client| matches!(client.phase, Phase::Holds { until } if state.elapsed < until);
        if state.clients.iter().filter(believes).count() > 1 {
            state.broken = state.broken.or(Some(EXCLUSION));
        }
    }
}
