//! Checks of each state, and what must follow from it without further losses.

use super::{EXCLUSION, FORGOTTEN, HandOffs, SERVED, State, coordinator::Known};
use crate::common::{FORGOTTEN_AFTER, holders, owner};

/// Seconds within which everything must have ended.
const SETTLED_WITHIN: u8 = 40;

impl HandOffs {
    pub(super) fn check(&self, state: &mut State) {
        let holders = holders(&state.lock, state.now());
        for client in 0..self.clients.len() {
            if let Some(Known::Holds { until }) = self.known(state, client)
                && until > state.elapsed
                && !holders
                    .iter()
                    .any(|(holder, _)| *holder == owner(client, 0))
            {
                state.broken = state.broken.or(Some(EXCLUSION));
            }
        }
    }

    /// Carries on from a state without further losses, but for the wake-ups: none of them arrives. Returns the property that is
    /// broken by then.
    pub(super) fn settle(&self, state: &State) -> Option<&'static str> {
        let mut state = state.clone();
        for _ in 0..SETTLED_WITHIN {
            for by in 0..state.coordinators.len() {
                while state.coordinators[by]
                    .as_ref()
                    .is_some_and(|coordinator| !coordinator.in_flight.is_empty())
                {
                    self.execute(&mut state, by, true);
                }
            }
            self.check(&mut state);
            let clients = 0..self.clients.len();
            for client in clients.clone() {
                if let Some(Known::Holds { .. }) = self.known(&state, client) {
                    self.end(&mut state, client);
                }
            }
            if clients
                .clone()
                .all(|client| self.known(&state, client).is_none())
            {
                break;
            }
            self.tick(&mut state);
        }
        if state.broken.is_some() {
            return state.broken;
        }
        for coordinator in state.coordinators.iter().flatten() {
            if !coordinator.registry.is_empty() {
                return Some(SERVED);
            }
            if !coordinator.names.is_empty() {
                return Some(FORGOTTEN);
            }
        }
        let later = state.now().after(FORGOTTEN_AFTER);
        (!state.lock.is_forgotten(later)).then_some(FORGOTTEN)
    }
}
