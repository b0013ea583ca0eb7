//! Promises of elections, checked at the store: no two lead one election, and a leader believes in its term only while the store
//! holds that for it.

use leasehold_core::mode::Mode;

use super::candidacy::Term;
use crate::world::{NAMES, World};

/// A leader that believes in its term.
#[derive(Debug)]
struct Leader {
    client: String,
    election: usize,
    term: Term,
}

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
            let client = line.name.clone();
            let election = line.election;
            Some((
                line.ttl,
                Leader {
                    client,
                    election,
                    term,
                },
            ))
        });
        let on_sessions = self.leaderships().into_iter();
        let on_sessions = on_sessions.map(|(number, election, token, until)| {
            let it = &self.clients[number];
            let term = Term {
                token,
                acked: 0,
                until,
            };
            let client = it.name.clone();
            (
                it.ttl,
                Leader {
                    client,
                    election,
                    term,
                },
            )
        });
        let leaders = on_streams.chain(on_sessions).filter(|(ttl, leader)| {
            let (election, token) = (leader.election, leader.term.token);
            let forced = self.forced.get(&(election, token));
            !self.may_be_lost(election, token, *ttl)
                && forced.is_none_or(|at| at + ttl + ttl / 100 <= now)
        });
        let leaders: Vec<_> = leaders.map(|(_, leader)| leader).collect();
        for (at, leader) in leaders.iter().enumerate() {
            let rival = leaders[at + 1..]
                .iter()
                .find(|other| other.election == leader.election);
            assert!(
                rival.is_none(),
                "at {now}, two lead {}: {leader:?} and {rival:?}",
                NAMES[leader.election]
            );
            self.look_up(leader.election);
            let held = self.store.held(leader.election);
            let hold = held.iter().find(|hold| {
                hold.token == leader.term.token
                    && hold.client == leader.client
                    && now < hold.ends_at
            });
            let Some(hold) = hold else {
                panic!("at {now}, {leader:?} believes that it leads; it is held by {held:?}");
            };
            assert!(
                hold.mode == Mode::Exclusive
                    && leader.term.until <= hold.ends_at
                    && hold.bound.is_none_or(|bound| leader.term.until <= bound),
                "at {now}, {leader:?} believes in its term beyond its end: {hold:?}"
            );
            let newest = &mut self.newest[leader.election];
            assert!(
                *newest <= leader.term.token,
                "at {now}, {leader:?} leads after the grant of {newest}"
            );
            *newest = leader.term.token;
        }
    }
}
