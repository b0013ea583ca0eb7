//! Renewals, which set a hold again on masters that lack it.

use leasehold_core::command::Loss;
use leasehold_store::quorum::claims::{Claim, Claims, Decision};

use super::{Flaw, MASTERS, Quorum, State, UNBROKEN, attempt::Phase, master::Said};
use crate::common::owner;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Renewal {
    /// When it was sent (s since the start).
    sent: u8,
    /// Until when the client believes in the hold, whatever becomes of the renewal.
    pub(super) until: u8,
    /// What each master said, and whether that counts.
    said: [Option<(Said, bool)>; MASTERS],
}

impl Renewal {
    pub(super) fn is_pending(&self, master: usize) -> bool {
        self.said[master].is_none()
    }

    fn claims(&self) -> Claims {
        let mut claims = Claims::new(MASTERS);
        for (place, said) in self.said.iter().enumerate() {
            if let Some((said, counts)) = *said {
                let (claim, counts) = match said {
                    Said::Has(token) => (Claim::Has { token }, counts),
                    Said::Uncertain => (Claim::Lacks, false),
                    Said::Lacks => (Claim::Lacks, counts),
                    Said::Taken => (Claim::Gone(Loss::Taken), counts),
                };
                claims.note(place, claim, counts);
            }
        }
        claims
    }
}

impl Quorum {
    pub(super) fn renew(&self, state: &mut State, client: usize) {
        state.renewals += 1;
        let sent = state.elapsed;
        let until = state.clients[client].phase.until().unwrap_or(sent);
        state.clients[client].phase = Phase::Renews(Renewal {
            sent,
            until,
            said: [None; MASTERS],
        });
    }

    /// Has the client's renewal arrive at a master, and takes in the answer.
    pub(super) fn extend(&self, state: &mut State, client: usize, place: usize) {
        let now = self.now(state, place);
        let counts = self.has_vote(&state.masters[place], state.elapsed);
        let owner = owner(client, state.clients[client].begun);
        let said = state.masters[place].extend(owner, self.ttl, now);
        let Phase::Renews(renewal) = &mut state.clients[client].phase else {
            return;
        };
        renewal.said[place] = Some((said, counts));
        let mut renewal = renewal.clone();
        if renewal.claims().decision().is_none() && renewal.said.iter().all(Option::is_some) {
            if !self.is_over(state, &renewal) {
                self.mend(state, client, &mut renewal);
            }
            // The renewal failed, and the hold stays as it is.
            if renewal.claims().decision().is_none() {
                let until = renewal.until;
                state.clients[client].phase = Phase::Holds { until };
                return;
            }
        }
        self.conclude(state, client, &renewal);
    }

    /// Sets the hold again on the masters that lack it.
    fn mend(&self, state: &mut State, client: usize, renewal: &mut Renewal) {
        let Some(mend) = renewal.claims().mend() else {
            return;
        };
        for place in mend.places {
            let said = self.restore(state, client, place, mend.token);
            let counts = self.has_vote(&state.masters[place], state.elapsed);
            renewal.said[place] = Some((said, counts));
        }
    }

    /// Returns whether the TTL has passed since the renewal was sent: what masters said may not be true any more.
    fn is_over(&self, state: &State, renewal: &Renewal) -> bool {
        let is_over = state.elapsed >= renewal.sent + self.ttl;
        is_over && self.flaw != Some(Flaw::StandsForever)
    }

    fn restore(&self, state: &mut State, client: usize, place: usize, token: i64) -> Said {
        let now = self.now(state, place);
        let owner = owner(client, state.clients[client].begun);
        let even_if_newer = self.flaw == Some(Flaw::RestoresAnyway);
        state.masters[place].restore((owner, token), self.ttl, now, even_if_newer)
    }

    fn conclude(&self, state: &mut State, client: usize, renewal: &Renewal) {
        match renewal.claims().decision() {
            None => {}
            Some(Decision::Refused(_)) => self.give_up(state, client),
            // It came too late to be certain, and the hold stays as it is.
            Some(Decision::Stands { .. }) if self.is_over(state, renewal) => {
                let until = renewal.until;
                state.clients[client].phase = Phase::Holds { until };
            }
            Some(Decision::Stands { token }) => {
                if token < state.largest {
                    state.broken = Some(UNBROKEN);
                }
                let until = renewal.until.max(renewal.sent + self.ttl);
                state.clients[client].phase = Phase::Holds { until };
                // The masters that lack it are repaired later.
                let lacks =
                    |place: &usize| !matches!(renewal.said[*place], Some((Said::Has(_), _)));
                state.clients[client].restores =
                    std::array::from_fn(|place| Some(place).filter(lacks));
            }
        }
    }

    /// Sets a renewed hold again at a master, late: it may be over by then.
    pub(super) fn restore_late(&self, state: &mut State, client: usize, place: usize) {
        state.clients[client].restores[place] = None;
        let token = state.clients[client].token;
        self.restore(state, client, place, token);
    }
}
