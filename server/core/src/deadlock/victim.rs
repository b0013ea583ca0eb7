//! Choice of the victims: the waits that are aborted so that each deadlock ends.

use std::{cmp::Reverse, collections::HashSet};

use crate::{id::OwnerId, time::StoreTime, view::WaitEdge};

use super::{
    Deadlock, scc,
    wait_graph::{Capacity, Party, WaitGraph},
};

/// Benefit of ending an actor's wait.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Merit {
    /// None so far.
    None,
    /// It holds a lock that others wait for.
    IsWaitedFor,
    /// Another actor goes on at once.
    LetsGoOn,
}

/// Wait to abort, and its deadlock.
struct Victim {
    wait: usize,
    merit: Merit,
    deadlock: Deadlock,
}

/// Returns the deadlocks of a reduced wait graph, each with its victim.
pub(super) fn choose(settled: &WaitGraph<'_>) -> Vec<Deadlock> {
    let mut victims = Vec::new();
    let mut graph = settled.clone();
    loop {
        let knots = graph.knots();
        let mut found: Vec<_> = knots.iter().filter_map(|knot| graph.victim(knot)).collect();
        if found.is_empty() {
            break;
        }
        // No knot blocks another: their order makes no difference.
        found.sort_unstable_by_key(|victim| graph.youth(victim.wait));
        for victim in &found {
            graph.go_on(graph.waits[victim.wait].party);
        }
        graph.settle();
        victims.append(&mut found);
    }
    spare(settled, &mut victims);
    victims.into_iter().map(|victim| victim.deadlock).collect()
}

/// Spares victims whose end let no actor go on at once, if all actors go on without it too. Tries the last victims first.
fn spare(settled: &WaitGraph<'_>, victims: &mut Vec<Victim>) {
    for number in (0..victims.len()).rev() {
        if victims[number].merit == Merit::LetsGoOn {
            continue;
        }
        let mut graph = settled.clone();
        for (other, victim) in victims.iter().enumerate() {
            if other != number {
                graph.go_on(graph.waits[victim.wait].party);
            }
        }
        graph.settle();
        if graph.left().next().is_none() {
            victims.remove(number);
        }
    }
}

impl WaitGraph<'_> {
    /// Returns the knots of the reduced wait graph: sets of parties that block one another, and that no other party blocks.
    fn knots(&self) -> Vec<Vec<usize>> {
        // Only the waiter directly ahead counts: those before it, and the holders, block through it. No head of a queue
        // fits, so all holders block it.
        let mut in_the_way = vec![Vec::new(); self.parties.len()];
        for name in 0..self.names.len() {
            let mut ahead = None;
            for wait in self.queue(name) {
                match ahead.replace(wait.party) {
                    Some(ahead) => in_the_way[wait.party].push(ahead),
                    None => in_the_way[wait.party].extend(self.holders(name)),
                }
            }
        }
        scc::find_knots(&in_the_way)
    }

    /// Returns the victim of a knot.
    fn victim(&self, knot: &[usize]) -> Option<Victim> {
        let members: HashSet<usize> = knot.iter().copied().collect();
        let waits = |party: &usize| self.parties[*party].waits.iter().copied();
        let mut candidates: Vec<usize> = knot.iter().flat_map(waits).collect();
        candidates.retain(|wait| self.waits[*wait].blocked);
        candidates.sort_unstable_by_key(|wait| self.youth(*wait));
        let mut best: Option<(usize, Merit)> = None;
        for wait in candidates {
            let merit = self.merit(self.waits[wait].party, &members);
            if best.is_none_or(|(_, best)| best < merit) {
                best = Some((wait, merit));
            }
            if merit == Merit::LetsGoOn {
                break;
            }
        }
        let (wait, merit) = best?;
        let deadlock = self.deadlock(wait)?;
        Some(Victim {
            wait,
            merit,
            deadlock,
        })
    }

    /// Returns the key that sorts waits, the youngest first.
    fn youth(&self, wait: usize) -> Reverse<(StoreTime, OwnerId)> {
        let WaitEdge { since, owner, .. } = self.waits[wait].edge;
        Reverse((*since, *owner))
    }

    fn merit(&self, party: usize, knot: &HashSet<usize>) -> Merit {
        let holds = &self.parties[party].holds;
        if self.lets_go_on(party, knot) {
            Merit::LetsGoOn
        } else if holds
            .iter()
            .any(|hold| self.queue(self.holds[*hold].name).next().is_some())
        {
            Merit::IsWaitedFor
        } else {
            Merit::None
        }
    }

    /// Returns whether another actor of the knot would go on if this one did.
    fn lets_go_on(&self, party: usize, knot: &HashSet<usize>) -> bool {
        let mut gone = HashSet::from([party]);
        let mut names: Vec<usize> = self.touched(party).collect();
        while let Some(name) = names.pop() {
            let capacity = self.capacity_without(party, name);
            for wait in self.queue(name) {
                if gone.contains(&wait.party) {
                    continue;
                }
                // No party of the knot waits for one outside.
                if !knot.contains(&wait.party) || !capacity.fits(wait.edge.mode) {
                    break;
                }
                if self.parties[wait.party].blocked {
                    return true;
                }
                gone.insert(wait.party);
                names.extend(self.touched(wait.party).filter(|other| *other != name));
            }
        }
        false
    }

    fn touched(&self, party: usize) -> impl Iterator<Item = usize> {
        let Party { holds, waits, .. } = &self.parties[party];
        let held = holds.iter().map(|hold| self.holds[*hold].name);
        held.chain(waits.iter().map(|wait| self.waits[*wait].name))
    }

    fn capacity_without(&self, party: usize, name: usize) -> Capacity {
        let mut capacity = self.names[name].capacity;
        let holds = self.parties[party].holds.iter();
        for hold in holds.map(|hold| &self.holds[*hold]) {
            if hold.name == name {
                capacity.leave(hold.edge.mode);
            }
        }
        capacity
    }
}
