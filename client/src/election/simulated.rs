//! Candidacies of a session without its driver, for the simulation in the workspace's own tests. Time is that of the session's
//! clock.

use std::time::Duration;

use crate::{
    candidacies,
    guard::LockWatch,
    session::simulated::{Guard, moment},
};

/// Elections for which a session campaigns, or which it leads.
#[derive(Default)]
pub struct Candidacies(candidacies::Candidacies);

/// Candidacy of one election. The session may campaign again once this is dropped, or its leadership is lost.
pub struct Candidacy(candidacies::Candidacy);

impl Candidacies {
    /// Begins a candidacy; `None` if the session has one that waits, leads or is suspended.
    pub fn begin(&self, now: Duration, election: &str) -> Option<Candidacy> {
        let candidacy = self.0.begin(moment(now), election.into())?;
        Some(Candidacy(candidacy))
    }
}

impl Candidacy {
    /// Notes that it was elected.
    pub fn elected(&self, guard: &Guard) {
        let lease = guard.lease().clone();
        self.0.elected(LockWatch::of(lease));
    }
}
