//! Intersection of two passes: the holds and waits that both of them saw.

use std::{
    collections::{HashMap, HashSet},
    hash::{Hash, Hasher},
};

use crate::{
    id::{Actor, OwnerId, SessionId},
    mode::Limit,
    name::LockName,
    view::{HoldEdge, NameEdges, WaitEdge},
};

use super::{
    BlockedWait, Pass,
    wait_graph::{Hold, Party, Wait, WaitGraph},
};

/// Wait of an actor. Hashed by its ticket alone, which is all but unique: a name may be long, and each is looked up several
/// times.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Key<'a> {
    ticket: OwnerId,
    session: SessionId,
    actor: Actor,
    name: &'a LockName,
}

impl Hash for Key<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.ticket.hash(state);
    }
}

impl Key<'_> {
    fn who(&self) -> Who {
        (self.session, self.actor)
    }
}

type Who = (SessionId, Actor);

/// Returns the wait graph of the holds and waits in both passes.
pub(super) fn both<'a>(before: &'a Pass, now: &'a Pass) -> WaitGraph<'a> {
    let names = names(before, now);
    let published = published(before, now);
    let moving = moving(before, now, &names, &published);
    let told: HashSet<Who> = published.iter().map(Key::who).collect();
    let is_free = |who: &Who| {
        let mut passes = [before, now].into_iter();
        let may_wait_for_more = passes.any(|pass| pass.omissions.concern(who.0));
        moving.contains(who) || may_wait_for_more && !told.contains(who)
    };

    let mut graph = WaitGraph::default();
    let mut actors: HashMap<Who, usize> = HashMap::new();
    for (index, name) in names.iter().enumerate() {
        let mut queue = Vec::new();
        for edge in &name.waiters {
            let who = who(edge.session, edge.actor);
            if who.as_ref().is_some_and(is_free) {
                continue;
            }
            let blocked = key(edge, name.name).is_some_and(|key| published.contains(&key));
            let new = graph.parties.len();
            // A waiter without an actor is a party of its own.
            let party = who.map_or(new, |who| *actors.entry(who).or_insert(new));
            if party == new {
                graph.parties.push(Party::default());
            }
            let wait = graph.waits.len();
            graph.waits.push(Wait {
                edge,
                name: index,
                place: queue.len(),
                party,
                blocked,
                over: false,
            });
            queue.push(wait);
            graph.parties[party].waits.push(wait);
            graph.parties[party].blocked |= blocked;
        }
        graph.name(name.name, queue, name.limit);
    }
    for (index, name) in names.iter().enumerate() {
        for edge in &name.holders {
            let party = who(edge.session, edge.actor).and_then(|who| actors.get(&who));
            // All other holders are assumed to release it.
            if let Some(&party) = party
                && graph.parties[party].blocked
            {
                graph.hold(Hold {
                    edge,
                    name: index,
                    party,
                });
            }
        }
    }
    graph
}

/// Edges of one name that are in both passes.
struct Both<'a> {
    name: &'a LockName,
    limit: Option<Limit>,
    holders: Vec<&'a HoldEdge>,
    waiters: Vec<&'a WaitEdge>,
}

/// Returns the names that both passes know completely, in order.
fn names<'a>(before: &'a Pass, now: &'a Pass) -> Vec<Both<'a>> {
    let mut names: Vec<_> = now
        .names
        .iter()
        .filter_map(|(name, now)| {
            let before = before.names.get(name)?;
            (before.complete && now.complete).then(|| both_of(name, before, now))
        })
        .collect();
    names.sort_unstable_by_key(|both| both.name);
    names
}

fn both_of<'a>(name: &'a LockName, before: &'a NameEdges, now: &'a NameEdges) -> Both<'a> {
    let held: HashSet<_> = before.holders.iter().map(|edge| edge.owner).collect();
    let waited: HashSet<_> = before
        .waiters
        .iter()
        .map(|edge| (edge.owner, edge.since))
        .collect();
    let mut holders: Vec<_> = now
        .holders
        .iter()
        .filter(|edge| held.contains(&edge.owner))
        .collect();
    // The store sorts them by the time left, so that their order changes with each renewal.
    holders.sort_unstable_by_key(|edge| (edge.session, edge.actor, edge.owner));
    let waiters = now
        .waiters
        .iter()
        .filter(|edge| waited.contains(&(edge.owner, edge.since)))
        .collect();
    Both {
        name,
        limit: now.limit,
        holders,
        waiters,
    }
}

/// Returns the waits that coordinators had published in both passes.
fn published<'a>(before: &'a Pass, now: &'a Pass) -> HashSet<Key<'a>> {
    let before: HashSet<_> = before.blocked.iter().map(BlockedWait::key).collect();
    now.blocked
        .iter()
        .map(BlockedWait::key)
        .filter(|key| before.contains(key))
        .collect()
}

/// Returns the actors with a wait that is not in both passes, or may not be.
fn moving<'a>(
    before: &'a Pass,
    now: &'a Pass,
    names: &[Both<'a>],
    published: &HashSet<Key<'a>>,
) -> HashSet<Who> {
    let standing: HashSet<Key<'a>> = names
        .iter()
        .flat_map(|both| both.waiters.iter().filter_map(|edge| key(edge, both.name)))
        .collect();
    let passes = || [before, now].into_iter();
    let seen = passes()
        .flat_map(|pass| &pass.names)
        .flat_map(|(name, edges)| edges.waiters.iter().filter_map(|edge| key(edge, name)))
        .filter(|key| !standing.contains(key));
    let said = passes()
        .flat_map(|pass| &pass.blocked)
        .map(BlockedWait::key)
        .filter(|key| !(standing.contains(key) && published.contains(key)));
    seen.chain(said).map(|key| key.who()).collect()
}

impl BlockedWait {
    fn key(&self) -> Key<'_> {
        Key {
            ticket: self.ticket,
            session: self.session,
            actor: self.actor,
            name: &self.name,
        }
    }
}

fn key<'a>(edge: &WaitEdge, name: &'a LockName) -> Option<Key<'a>> {
    let (session, actor) = who(edge.session, edge.actor)?;
    Some(Key {
        ticket: edge.owner,
        session,
        actor,
        name,
    })
}

/// Returns the actor; `None` without one.
fn who(session: Option<SessionId>, actor: Actor) -> Option<Who> {
    session
        .filter(|_| !actor.is_nobody())
        .map(|session| (session, actor))
}
