//! Fair choice of the blocked actors that a coordinator publishes. Bounds what each session, each caller and the coordinator
//! publish, so that one client's waits do not crowd out another's.
//!
//! Sessions of a caller take turns, and callers take turns: whoever has little is published whole, whatever the others have.
//! Whoever has the least also comes first in what is published. A lot decides among the actors of whoever has more than its
//! share. A new lot is drawn every few passes, so that any two actors are published together sooner or later.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use crate::id::{Actor, SessionId};

/// Most bytes of the actors of one session. An actor whose own waits take more is never published.
pub const SESSION: usize = 16 << 10;
/// Most bytes of all sessions of one caller.
pub const CALLER: usize = 128 << 10;
/// Most bytes that a coordinator publishes.
pub const COORDINATOR: usize = 256 << 10;

/// An actor that may be published.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Its session, and its number there.
    pub who: (SessionId, Actor),
    /// The caller that the session belongs to.
    pub caller: Arc<str>,
    /// Bytes that its waits take.
    pub bytes: usize,
}

/// Number of actors or names that each bound has left out of a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Omitted {
    /// Actors beyond [`SESSION`].
    pub session: usize,
    /// Actors beyond [`CALLER`].
    pub caller: usize,
    /// Actors beyond [`COORDINATOR`].
    pub coordinator: usize,
    /// Names beyond those that a pass reads.
    pub names: usize,
    /// Names that were not read, as the others had too many holders and waiters.
    pub edges: usize,
    /// Names that were not read in time.
    pub time: usize,
}

impl Omitted {
    /// Returns each bound that has left something out, by the name that metrics give it, with how much.
    pub fn each(self) -> impl Iterator<Item = (&'static str, usize)> {
        let all = BOUNDS.into_iter().zip([
            self.session,
            self.caller,
            self.coordinator,
            self.names,
            self.edges,
            self.time,
        ]);
        all.filter(|(_, omitted)| *omitted > 0)
    }
}

/// The bounds, by the names that metrics give them.
pub const BOUNDS: [&str; 6] = ["session", "caller", "coordinator", "names", "edges", "time"];

/// Order of actors and names, drawn by lot: a hash that begins with a secret random number.
///
/// A client can't predict the order of the names and actors that it chooses, because it does not know the number. The hash gives
/// no more than that: std promises no algorithm, and 64 secret bits are too few for a signature. A client that guessed the number
/// could have its own waits chosen before others of the same share, until the next lot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lot(u64);

impl Lot {
    /// Returns the lot of a secret random number.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the place of an actor or a name in the order.
    pub(super) fn rank(self, of: impl Hash) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.0.hash(&mut hasher);
        of.hash(&mut hasher);
        hasher.finish()
    }
}

/// Actor with its place among those that share something.
struct Ranked {
    candidate: Candidate,
    /// Number of actors of the same session, and then of the same caller, that come before it.
    turn: usize,
    /// Bytes that the actors of the same session, and then of the same caller, take up to this one.
    through: usize,
    rank: u64,
}

/// Returns the bytes that a wait for a name of this length takes.
pub const fn bytes(name: usize) -> usize {
    // Session, actor, ticket and length.
    16 + 8 + 16 + 2 + name
}

/// Chooses actors, in an order in which every caller has a turn. The same lot gives the same order.
///
/// This is the order in which their names are read: callers with the least first, and of each caller the sessions with the
/// least. A pass may have time only for the first ones.
pub fn choose(candidates: Vec<Candidate>, lot: Lot) -> (Vec<(SessionId, Actor)>, Omitted) {
    let all = candidates.into_iter().map(|candidate| Ranked {
        rank: lot.rank(candidate.who),
        through: 0,
        turn: 0,
        candidate,
    });
    let mut all: Vec<_> = all.collect();
    let turn = |ranked: &Ranked| (ranked.turn, ranked.rank);
    let size = |ranked: &Ranked| (ranked.through, ranked.rank);
    let session = |candidate: &Candidate| candidate.who.0;
    let caller = |candidate: &Candidate| Arc::clone(&candidate.caller);
    let omitted = Omitted {
        session: keep(&mut all, turn, session, SESSION),
        caller: keep(&mut all, turn, caller, CALLER),
        coordinator: keep(&mut all, turn, |_| (), COORDINATOR),
        ..Omitted::default()
    };
    // Nothing more is left out: the places are noted among those that remain.
    keep(&mut all, turn, session, usize::MAX);
    keep(&mut all, size, caller, usize::MAX);
    all.sort_unstable_by_key(size);
    let chosen = all.into_iter().map(|ranked| ranked.candidate.who);
    (chosen.collect(), omitted)
}

/// Puts actors in this order, notes the place of each in its group, and keeps those that fit. Returns the number of the others.
fn keep<K: Hash + Eq>(
    all: &mut Vec<Ranked>,
    order: impl Fn(&Ranked) -> (usize, u64),
    group: impl Fn(&Candidate) -> K,
    bound: usize,
) -> usize {
    all.sort_unstable_by_key(order);
    let before = all.len();
    let mut groups: HashMap<K, (usize, usize)> = HashMap::new();
    all.retain_mut(|ranked| {
        let (actors, taken) = groups.entry(group(&ranked.candidate)).or_default();
        let through = *taken + ranked.candidate.bytes;
        let fits = through <= bound;
        if fits {
            (ranked.turn, ranked.through) = (*actors, through);
            (*actors, *taken) = (*actors + 1, through);
        }
        fits
    });
    before - all.len()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Returns this many actors of a session, each with a wait for a name of this length.
    fn actors(caller: &str, session: u8, number: u64, name: usize) -> Vec<Candidate> {
        (1..=number)
            .map(|actor| Candidate {
                who: (SessionId::from_bytes([session; 16]), Actor::new(actor)),
                caller: caller.into(),
                bytes: bytes(name),
            })
            .collect()
    }

    fn of_session(chosen: &[(SessionId, Actor)], session: u8) -> usize {
        let session = SessionId::from_bytes([session; 16]);
        chosen.iter().filter(|(of, _)| *of == session).count()
    }

    #[test]
    fn a_session_with_little_is_published_whole_beside_any_number_of_others() {
        let mut all = Vec::new();
        for session in 0..200 {
            let caller = if session < 100 { "flood" } else { "crowd" };
            all.extend(actors(caller, session, 100, 512));
        }
        all.extend(actors("crowd", 200, 2, 512));
        all.extend(actors("alone", 201, 3, 512));
        for lot in 0..10 {
            let (chosen, omitted) = choose(all.clone(), Lot::new(lot));
            let whole = of_session(&chosen, 201);
            assert_eq!(whole, 3, "{omitted:?}");
            assert!(of_session(&chosen, 200) >= 1, "each session has a turn");
            let taken: usize = chosen.len() * bytes(512);
            assert!(taken <= COORDINATOR && taken > COORDINATOR - 2 * bytes(512));
            // First of all come the first turns of every caller.
            assert!(of_session(&chosen[..6], 201) > 0);
            assert!(omitted.session > 0 && omitted.caller > 0);
        }
    }

    #[test]
    fn callers_and_sessions_with_little_come_before_those_with_more() {
        let mut all = Vec::new();
        for session in 0..20 {
            all.extend(actors("one", session, 20, 512));
        }
        // Two actors of one session, and one each of another one and of another caller's.
        all.extend(actors("one", 20, 2, 20));
        all.extend(actors("one", 21, 1, 200));
        all.extend(actors("two", 22, 1, 400));
        for lot in 0..20 {
            let (chosen, _) = choose(all.clone(), Lot::new(lot));
            let mut first: Vec<_> = chosen[..4].iter().map(|(session, _)| *session).collect();
            first.sort_unstable();
            let expected = [20, 20, 21, 22].map(|session| SessionId::from_bytes([session; 16]));
            assert_eq!(first, expected);
        }
    }

    #[test]
    fn each_bound_holds_and_names_itself() {
        let fits = SESSION / bytes(100);
        let lot = Lot::new(1);
        let (chosen, omitted) = choose(actors("one", 1, 1000, 100), lot);
        assert_eq!((chosen.len(), omitted.session), (fits, 1000 - fits));
        let many = |callers: u8| {
            let sessions = (0..callers).flat_map(|caller| (0..20).map(move |of| (caller, of)));
            let all = sessions.flat_map(|(caller, of)| {
                actors(&format!("caller {caller}"), caller * 20 + of, 1000, 100)
            });
            choose(all.collect(), lot)
        };
        let (chosen, omitted) = many(1);
        assert_eq!(chosen.len(), CALLER / bytes(100));
        assert_eq!(omitted.coordinator, 0);
        let bounds: Vec<_> = omitted.each().map(|(bound, _)| bound).collect();
        assert_eq!(bounds, ["session", "caller"]);
        let (chosen, omitted) = many(5);
        assert_eq!(chosen.len(), COORDINATOR / bytes(100));
        assert!(omitted.coordinator > 0);
    }

    #[test]
    fn any_two_actors_are_published_together_sooner_or_later() {
        let all = actors("one", 1, 200, 400);
        let mut together = HashSet::new();
        let pairs = 200 * 199 / 2;
        let mut lots = 0;
        // Each lot has about a thirtieth of the pairs.
        while together.len() < pairs {
            let (chosen, _) = choose(all.clone(), Lot::new(lots));
            for (number, one) in chosen.iter().enumerate() {
                let others = chosen[number + 1..].iter();
                together.extend(others.map(|other| (one.min(other).1, one.max(other).1)));
            }
            lots += 1;
            assert!(lots < 5000, "{} of {pairs} pairs", together.len());
        }
    }

    #[test]
    fn the_same_lot_gives_the_same_choice_and_order() {
        let lot = Lot::new(1);
        let mut all = actors("one", 1, 500, 300);
        all.extend(actors("two", 2, 5, 300));
        let first = choose(all.clone(), lot);
        all.reverse();
        assert_eq!(choose(all, lot), first);
    }
}
