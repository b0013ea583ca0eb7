//! Checks of each state, and what must follow from it without further faults.

use leasehold_core::{
    command::{CLAIM_TIME, DEAD_AFTER, End},
    mode::{Mode, Taken},
};

use super::{
    EXCLUSION, FORGOTTEN, ORDER, REFRESH, Rules, SERVED, UNBROKEN,
    state::{Client, Phase, State},
};
use crate::common::{FORGOTTEN_AFTER, seconds};

impl Rules {
    /// Checks that nobody waits longer than a client that is granted the lock, at a coordinator that lives.
    pub(super) fn check_order(&self, state: &mut State, client: usize) {
        let earlier = state.order.iter().take_while(|other| **other != client);
        let is_served = |other: &usize| {
            let last = state.refreshed[self.at(*other)];
            seconds(state.elapsed - last) < DEAD_AFTER
        };
        if earlier.copied().any(|other| is_served(&other)) {
            state.broken = Some(ORDER);
        }
    }

    /// Checks what holds of every state, and notes what is broken.
    pub(super) fn check(&self, state: &mut State) {
        let holders = state.holders();
        let mut taken = Taken::Nothing;
        for (_, mode) in &holders {
            if !taken.fits(*mode) {
                state.broken = state.broken.or(Some(EXCLUSION));
            }
            taken = taken.with(*mode);
        }
        for client in 0..state.clients.len() {
            if let Phase::Holds(token, until) = state.clients[client].phase
                && until > state.elapsed
            {
                let owner = state.owner(client);
                let held = holders.iter().find(|(holder, _)| *holder == owner);
                match held {
                    None => state.broken = state.broken.or(Some(EXCLUSION)),
                    Some((_, Mode::Exclusive)) if token < state.largest => {
                        state.broken = state.broken.or(Some(UNBROKEN));
                    }
                    Some(_) => {}
                }
            }
        }
    }

    /// Returns whether a client believes in a hold no more that the store does not have either, and another one waits.
    pub(super) fn has_expired(&self, state: &State) -> bool {
        let is_over = |client: &Client| match client.phase {
            Phase::Holds(_, until) => until <= state.elapsed,
            _ => false,
        };
        state.clients.iter().any(is_over) && !state.order.is_empty() && state.holders().is_empty()
    }

    /// Carries on from a state without further faults: holders release, hand-offs are confirmed, coordinators refresh.
    /// Returns the property that is broken by then.
    pub(super) fn settle(&self, state: &State) -> Option<&'static str> {
        let mut state = state.clone();
        let clients = 0..state.clients.len();
        let refresh = std::array::from_fn(|by| state.lives(by));
        // A hold of a coordinator that died lasts until its TTL and lock-delay have passed; its waiters cost one claim time
        // and one refresh.
        let ends = state.clients.iter().map(|client| match client.phase {
            Phase::Holds(_, until) => until,
            Phase::WithoutExpiry(_) => state.elapsed + self.ttl,
            _ => state.elapsed,
        });
        let latest = ends.max().unwrap_or(0).max(state.elapsed) + self.lock_delay;
        let claim = u8::try_from(CLAIM_TIME.as_secs()).unwrap();
        let in_time = latest + claim + 2 * REFRESH;
        let mut served_by = state.elapsed;
        for _ in 0..60 {
            if clients.clone().all(|client| {
                !state.lives(self.at(client)) || state.clients[client].phase == Phase::Idle
            }) {
                break;
            }
            for client in clients.clone() {
                if !state.lives(self.at(client)) {
                    continue;
                }
                match state.clients[client].phase {
                    Phase::Idle => {}
                    Phase::Waiting => served_by = state.elapsed,
                    Phase::Handed(token) => self.extend(&mut state, client, token),
                    Phase::WithoutExpiry(token) => self.extend(&mut state, client, token),
                    Phase::Compared => self.delete(&mut state, client),
                    Phase::Holds(..) => {
                        let owner = state.owner(client);
                        self.release(&mut state, client, owner, End::Clean);
                    }
                }
            }
            self.tick(&mut state, refresh);
        }
        if state.broken.is_some() {
            return state.broken;
        }
        if served_by > in_time {
            return Some(SERVED);
        }
        let later = state.now().after(FORGOTTEN_AFTER);
        (!state.lock.is_forgotten(later)).then_some(FORGOTTEN)
    }
}
