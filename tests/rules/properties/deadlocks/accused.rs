//! Reference model of the choice of victims: follows all paths and tries out the end of each wait.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use leasehold_core::deadlock::BlockedWait;

use crate::deadlocks::{
    model::{Party, doomed, party},
    town::{Edge, Town, blocked},
};

type Ways = BTreeMap<Party, BTreeSet<Party>>;

/// Returns all waits that have to end, round by round, and within a round the youngest first.
pub(crate) fn accused(whole: &Town) -> Vec<BlockedWait> {
    let mut accused = Vec::new();
    let mut town = left(whole);
    while town.waits().next().is_some() {
        let mut victims: Vec<_> = knots(&town)
            .iter()
            .map(|knot| victim(&town, knot))
            .collect();
        victims.sort_by_key(|(_, edge, _)| Reverse((edge.since, edge.id)));
        accused.append(&mut victims);
        for (_, edge, _) in &accused {
            town.end(|other| other.who == edge.who);
        }
        town = left(&town);
    }
    // Who helped nobody is spared, if the others do without.
    for number in (0..accused.len()).rev() {
        let mut after = whole.clone();
        for (other, (_, edge, _)) in accused.iter().enumerate() {
            after.end(|wait| other != number && wait.who == edge.who);
        }
        if !accused[number].2 && doomed(&after).is_empty() {
            accused.remove(number);
        }
    }
    accused
        .iter()
        .map(|(name, edge, _)| blocked(edge, *name))
        .collect()
}

/// Returns the town with the doomed parties alone.
fn left(town: &Town) -> Town {
    let doomed = doomed(town);
    let mut left = town.clone();
    left.end(|edge| !doomed.contains(&party(edge)));
    left
}

/// Returns the parties that block each party.
fn in_the_way(town: &Town) -> Ways {
    let mut ways = Ways::new();
    for line in &town.lines {
        for (place, wait) in line.queue.iter().enumerate() {
            let ways = ways.entry(party(wait)).or_default();
            ways.extend(line.queue[..place].iter().map(party));
            if !line.fits(wait.mode) {
                ways.extend(line.holds.iter().map(party));
            }
        }
    }
    ways
}

/// Returns the transitive closure.
fn closure(mut ways: Ways) -> Ways {
    loop {
        let mut grown = false;
        for from in ways.keys().copied().collect::<Vec<_>>() {
            let over = ways[&from].clone();
            let further: Vec<_> = over.iter().flat_map(|over| ways[over].clone()).collect();
            let reached = ways.entry(from).or_default();
            let before = reached.len();
            reached.extend(further);
            grown |= reached.len() > before;
        }
        if !grown {
            return ways;
        }
    }
}

fn knots(town: &Town) -> BTreeSet<BTreeSet<Party>> {
    let ways = closure(in_the_way(town));
    let is_knot = |set: &&BTreeSet<Party>| set.iter().all(|member| ways[member] == **set);
    ways.values().filter(is_knot).cloned().collect()
}

/// Returns the victim of a knot: the number of the name, the wait, and whether its end lets another party go on by itself.
fn victim(town: &Town, knot: &BTreeSet<Party>) -> (usize, Edge, bool) {
    let lines = town.lines.iter().enumerate();
    let waits: Vec<(usize, Edge)> = lines
        .flat_map(|(name, line)| line.queue.iter().map(move |edge| (name, *edge)))
        .filter(|(_, edge)| town.is_blocked(edge.who) && knot.contains(&party(edge)))
        .collect();
    let youngest = |helps: &dyn Fn(&Edge) -> bool| {
        let waits = waits.iter().filter(|(_, edge)| helps(edge));
        waits.max_by_key(|(_, edge)| (edge.since, edge.id)).copied()
    };
    if let Some((name, edge)) = youngest(&|edge| lets_go_on(town, knot, edge)) {
        return (name, edge, true);
    }
    let (name, edge) = youngest(&|edge| is_waited_for(town, edge)).unwrap();
    (name, edge, false)
}

/// Returns whether another actor of the knot goes on, in one way or another, once this one has.
fn lets_go_on(town: &Town, knot: &BTreeSet<Party>, edge: &Edge) -> bool {
    let mut after = town.clone();
    after.end(|other| other.who == edge.who);
    let doomed = doomed(&after);
    let others = knot.iter().filter(|(who, _)| *who != edge.who);
    others
        .filter(|(who, _)| town.is_blocked(*who))
        .any(|other| !doomed.contains(other))
}

fn is_waited_for(town: &Town, edge: &Edge) -> bool {
    let mut lines = town.lines.iter();
    lines.any(|line| !line.queue.is_empty() && line.holds.iter().any(|hold| hold.who == edge.who))
}
