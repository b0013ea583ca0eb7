//! Shortest cycle through a victim.

use std::collections::VecDeque;

use super::{Because, Deadlock, Step, wait_graph::WaitGraph};

impl WaitGraph<'_> {
    /// Returns the deadlock of this victim; `None` if its wait is not in a circle, or was not published.
    pub(super) fn deadlock(&self, victim: usize) -> Option<Deadlock> {
        let links = Search::new(self).back_to(victim)?;
        Some(Deadlock {
            victim: self.blocked(victim)?,
            cycle: links.into_iter().map(|link| self.step(link)).collect(),
        })
    }

    fn step(&self, link: Link) -> Step {
        let wait = &self.waits[link.wait];
        Step {
            session: wait.edge.session,
            client_name: wait.edge.client_name.clone(),
            actor: wait.edge.actor,
            holds: self.parties[wait.party].blocked,
            name: self.names[wait.name].name.clone(),
            because: link.because,
        }
    }
}

/// Link by which the search reached a party: from which wait, and how the party blocks it.
#[derive(Clone, Copy)]
struct Link {
    wait: usize,
    because: Because,
}

/// Breadth-first search for a shortest cycle, from a wait over the parties that block it.
struct Search<'w, 'a> {
    graph: &'w WaitGraph<'a>,
    /// The link to each party.
    links: Vec<Option<Link>>,
    /// The parties to visit.
    next: VecDeque<usize>,
    /// The number of waiters at the head of each name's queue that have been visited, so that no party is visited once for
    /// every waiter behind it. `holders` says whether the holders have been visited.
    ahead: Vec<usize>,
    holders: Vec<bool>,
}

impl<'w, 'a> Search<'w, 'a> {
    fn new(graph: &'w WaitGraph<'a>) -> Self {
        Self {
            graph,
            links: vec![None; graph.parties.len()],
            next: VecDeque::new(),
            ahead: vec![0; graph.names.len()],
            holders: vec![false; graph.names.len()],
        }
    }

    /// Returns the links of the cycle, from the victim's wait on.
    fn back_to(mut self, victim: usize) -> Option<Vec<Link>> {
        let goal = self.graph.waits[victim].party;
        self.look_at(victim);
        while self.links[goal].is_none() {
            let party = self.next.pop_front()?;
            for wait in &self.graph.parties[party].waits {
                self.look_at(*wait);
            }
        }
        let mut links = Vec::new();
        let mut party = goal;
        while links.last().is_none_or(|link: &Link| link.wait != victim) {
            let link = self.links[party]?;
            links.push(link);
            party = self.graph.waits[link.wait].party;
        }
        links.reverse();
        Some(links)
    }

    /// Visits all parties that block a wait.
    fn look_at(&mut self, number: usize) {
        let graph = self.graph;
        let wait = &graph.waits[number];
        let name = &graph.names[wait.name];
        let fits = name.capacity.fits(wait.edge.mode);
        if !fits && !std::mem::replace(&mut self.holders[wait.name], true) {
            for holder in graph.holders(wait.name) {
                self.come_to(holder, number, Because::Holds);
            }
        }
        let first = self.ahead[wait.name].max(name.head);
        for ahead in name.queue.iter().take(wait.place).skip(first) {
            let ahead = &graph.waits[*ahead];
            if !ahead.over {
                self.come_to(ahead.party, number, Because::IsAhead);
            }
        }
        self.ahead[wait.name] = first.max(wait.place);
    }

    fn come_to(&mut self, party: usize, wait: usize, because: Because) {
        if self.links[party].is_none() {
            self.links[party] = Some(Link { wait, because });
            self.next.push_back(party);
        }
    }
}
