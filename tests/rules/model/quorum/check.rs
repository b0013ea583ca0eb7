//! Consequences of each state without further faults.

use super::{MASTERS, Quorum, SERVED, State, attempt::Phase};

impl Quorum {
    /// Carries on from a state: nothing in flight arrives, and one client tries again once every hold has expired and every
    /// master has a vote. Returns the property that is broken by then.
    pub(super) fn settle(&self, state: &State) -> Option<&'static str> {
        let mut state = state.clone();
        state.elapsed += 3 * self.ttl;
        self.begin(&mut state, 0);
        for _ in 0..2 {
            for master in 0..MASTERS {
                if let Phase::Proposes(round) | Phase::WritesBack(round, _) =
                    &state.clients[0].phase
                    && round.is_pending(master)
                {
                    self.ask(&mut state, 0, master, true);
                }
            }
        }
        if state.broken.is_some() {
            return state.broken;
        }
        let holds = matches!(state.clients[0].phase, Phase::Holds { .. });
        (!holds).then_some(SERVED)
    }
}
