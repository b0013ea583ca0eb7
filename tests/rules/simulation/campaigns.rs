//! Campaigns of the simulated clients on their sessions, with the client's real bookkeeping of candidacies.

use leasehold_client::simulation::{Acquire, Candidacy, Guard};
use leasehold_proto::v1::LockMode;

use crate::{
    check::Belief,
    world::{NAMES, World},
};

/// Campaign of a client, which may lead.
pub(crate) struct Campaign {
    /// The number of its acquire.
    pub(crate) acquire: u64,
    election: usize,
    candidacy: Candidacy,
    guard: Option<Guard>,
}

impl Campaign {
    /// Returns whether this is the guard of its leadership.
    pub(crate) fn is(&self, guard: &Guard) -> bool {
        let own = self.guard.as_ref();
        own.is_some_and(|own| own.name() == guard.name() && own.token() == guard.token())
    }
}

impl World {
    /// Has a client campaign on its session, now and then. Fails if the session may campaign although it waits or leads, or may
    /// not although it does neither.
    pub(crate) fn campaign_on_session(&mut self, client: usize) {
        let Some(election) = self.candidates.draw_campaign() else {
            return;
        };
        let it = &mut self.clients[client];
        let clock = it.clock(self.now);
        it.campaigns.retain(|campaign| {
            let guard = campaign.guard.as_ref();
            guard.is_none_or(|guard| !guard.is_lost(clock))
        });
        let mut campaigns = it.campaigns.iter();
        let campaigns_already = campaigns.any(|campaign| campaign.election == election);
        let begun = it.candidacies.begin(clock, NAMES[election]);
        assert!(
            begun.is_some() != campaigns_already,
            "at {}, {} may campaign for {}: {}; it does already: {campaigns_already}",
            self.now,
            it.name,
            NAMES[election],
            begun.is_some()
        );
        let Some(candidacy) = begun else {
            self.seen.campaigns_refused += 1;
            return;
        };
        self.seen.campaigns_on_sessions += 1;
        it.acquires += 1;
        let acquire = it.acquires;
        it.waits.insert(acquire, vec![LockMode::Exclusive]);
        it.campaigns.push(Campaign {
            acquire,
            election,
            candidacy,
            guard: None,
        });
        let spec = Acquire {
            locks: vec![(NAMES[election].to_owned(), LockMode::Exclusive)],
            permits: 0,
            permits_at_least: None,
            limit: 0,
            limit_revision: 0,
            wait: None,
            lock_delay: std::time::Duration::ZERO,
            max_hold: None,
            actor: 0,
            reentrant: false,
        };
        it.turn("acquire", |it| it.acquire(clock, acquire, spec));
    }

    /// A client's acquire was granted: if it campaigned, it leads.
    pub(crate) fn on_session_elected(&mut self, client: usize, acquire: u64, guards: &[Guard]) {
        let mut campaigns = self.clients[client].campaigns.iter_mut();
        if let Some(campaign) = campaigns.find(|campaign| campaign.acquire == acquire)
            && let [guard] = guards
        {
            campaign.candidacy.elected(guard);
            campaign.guard = Some(guard.clone());
            self.seen.elected_on_sessions += 1;
        }
    }

    /// Returns the leaderships on sessions that are believed in, with their clients' TTLs.
    pub(crate) fn leaderships(&self) -> Vec<(u64, Belief)> {
        let mut leaderships = Vec::new();
        for client in self.clients.iter().filter(|it| !it.campaigns.is_empty()) {
            for (guard, until) in client.live(self.now) {
                let mut campaigns = client.campaigns.iter();
                if let Some(campaign) = campaigns.find(|campaign| campaign.is(guard)) {
                    let belief = Belief {
                        client: client.name.clone(),
                        name: campaign.election,
                        token: guard.token().get(),
                        until,
                    };
                    leaderships.push((client.ttl, belief));
                }
            }
        }
        leaderships
    }
}
