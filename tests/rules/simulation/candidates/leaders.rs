//! Promises of elections, checked at the store: no two lead one election, and a leader believes in its term only while the store
//! holds that for it.

use leasehold_core::mode::Mode;

use crate::{
    check::Belief,
    world::{NAMES, World},
};

impl World {
    /// Fails if the term of a candidate goes on that has resigned.
    pub(super) fn check_over(&mut self, number: usize) {
        let line = self.candidates.all[number].line.as_ref();
        let line = line.expect("it campaigns");
        let (client, election, token) = (line.name.clone(), line.election, line.token);
        self.look_up(election);
        let mut held = self.store.held(election).iter();
        let hold = held.find(|hold| hold.client == client);
        assert!(
            hold.is_none() || self.failed_over_at > 0,
            "at {}, {client} has resigned from its term {token:?}, which goes on: {hold:?}",
            self.now
        );
    }

    /// Fails if two leaders believe in terms of one election, or one in a term that the store does not know, or beyond its end.
    /// A term that an operator or a disaster has ended is believed in for a TTL at most.
    pub(crate) fn check_leaders(&mut self) {
        let now = self.now;
        let lines = self.candidates.all.iter().filter_map(|it| it.line.as_ref());
        let on_streams = lines.filter_map(|line| {
            let term = line.term.filter(|term| now < term.until)?;
            let belief = Belief {
                client: line.name.clone(),
                name: line.election,
                token: term.token,
                until: term.until,
            };
            Some((line.ttl, belief))
        });
        let on_sessions = self.leaderships().into_iter();
        let leaders = on_streams.chain(on_sessions);
        let leaders = leaders.filter(|(ttl, leader)| !self.may_be_wrong(leader, *ttl));
        let leaders: Vec<_> = leaders.map(|(_, leader)| leader).collect();
        for (at, leader) in leaders.iter().enumerate() {
            let mut others = leaders[at + 1..].iter();
            let rival = others.find(|other| other.name == leader.name);
            assert!(
                rival.is_none(),
                "at {now}, two lead {}: {leader:?} and {rival:?}",
                NAMES[leader.name]
            );
            let mode = self.check_belief(leader);
            assert!(
                mode == Mode::Exclusive,
                "at {now}, {leader:?} leads with others"
            );
        }
    }
}
