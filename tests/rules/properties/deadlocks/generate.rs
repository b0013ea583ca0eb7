//! Random worlds.

use std::ops::RangeInclusive;

use leasehold_core::mode::Mode;
use proptest::prelude::*;

use crate::deadlocks::town::{S, Town, UNARY, Who, X, actor, nobody, permits};

pub(crate) const NAMES: usize = 3;

/// Four actors, two of them of one session, and two sessions with actor 0.
const PEOPLE: [Who; 6] = [
    actor(1),
    actor(2),
    actor(3),
    Who {
        session: 3,
        actor: 4,
    },
    nobody(5),
    UNARY,
];

pub(crate) fn who() -> impl Strategy<Value = Who> {
    prop_oneof![
        8 => prop::sample::select(&PEOPLE[..4]),
        1 => prop::sample::select(&PEOPLE[4..]),
    ]
}

pub(crate) fn mode() -> impl Strategy<Value = Mode> {
    prop_oneof![
        4 => Just(X),
        4 => Just(S),
        4 => (1..=3_u32).prop_map(permits),
    ]
}

/// Returns a ring of two or three actors, each of which holds one name and waits for the next one's: the actor, the name that
/// it holds, and the name that it waits for. Random edges alone seldom make a ring.
pub(crate) fn ring() -> impl Strategy<Value = Vec<(Who, usize, usize)>> {
    let people = Just(PEOPLE[..4].to_vec()).prop_shuffle();
    let names = Just((0..NAMES).collect::<Vec<_>>()).prop_shuffle();
    (people, names, 2..=NAMES).prop_map(|(people, names, length)| {
        let next = |place: usize| names[(place + 1) % length];
        let ring = people.into_iter().zip(names.clone()).take(length);
        let ring = ring.enumerate();
        ring.map(|(place, (who, name))| (who, name, next(place)))
            .collect()
    })
}

/// A wait to be, where it comes among the others of its name, since when it is said to wait, and whether an actor may do so
/// although it waits already.
type Wait = (usize, Who, Mode, u8, u32, bool);

fn wait() -> impl Strategy<Value = Wait> {
    let again = prop::bool::weighted(0.1);
    (0..NAMES, who(), mode(), any::<u8>(), 0..5_u32, again)
}

fn waits(number: RangeInclusive<usize>) -> impl Strategy<Value = Vec<Wait>> {
    prop::collection::vec(wait(), number)
}

/// Holds that go together, and queues in any order: at most three of each for a name. Most actors wait at most once, and
/// many in a ring.
pub(crate) fn town() -> impl Strategy<Value = Town> {
    let hold = || (0..NAMES, who(), mode());
    let holds = |number| prop::collection::vec(hold(), number);
    let rings = prop_oneof![1 => Just(Vec::new()), 2 => ring()];
    let readers = prop::bool::weighted(0.4);
    let around = (
        holds(NAMES..=NAMES),
        waits(NAMES..=NAMES),
        waits(NAMES..=NAMES),
        readers,
    );
    (rings, around, holds(0..=6), waits(0..=5)).prop_map(
        |(ring, (held, wanted, ahead, readers), mut holds, mut waits)| {
            let steps = ring.into_iter().zip(held).zip(wanted).zip(ahead);
            for ((((who, name, next), mut held), mut wanted), mut ahead) in steps {
                (wanted.0, wanted.1) = (next, who);
                if readers {
                    // One reader waits for another only because of a writer between them.
                    (held.2, wanted.2) = (S, S);
                    (ahead.0, ahead.2, ahead.3) = (next, X, 0);
                    waits.insert(0, ahead);
                }
                holds.insert(0, (name, who, held.2));
                waits.push(wanted);
            }
            build(holds, waits)
        },
    )
}

fn build(holds: Vec<(usize, Who, Mode)>, mut waits: Vec<Wait>) -> Town {
    let mut town = Town::default();
    for (name, who, mode) in holds {
        let line = town.line(name);
        if line.holds.len() < 3 && line.fits(mode) {
            town.hold(name, who, mode);
        }
    }
    waits.sort_by_key(|wait| wait.3);
    for (name, who, mode, _, since, again) in waits {
        let waits = town.waits().any(|edge| edge.who == who);
        if town.line(name).queue.len() < 3 && (again || !waits) {
            town.wait(name, who, mode);
            // Over all names it need not go with the order of the queues: the detector has to go by the places.
            town.line(name).queue.last_mut().unwrap().since = since;
        }
    }
    town
}
