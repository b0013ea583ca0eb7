//! Scenes of stuck actors, and of the victims chosen among them, that random towns do not have.

use leasehold_core::{
    deadlock::{Deadlock, find, stuck},
    mode::{Mode, Permits},
};

use crate::deadlocks::{
    agreement::{victims, whose},
    town::{A, B, C, LIMIT, S, Town, Who, X, actor, nobody, permits},
};

/// Returns the stuck actors, and those whose waits are to end.
fn look(town: &Town) -> (Vec<Who>, Vec<Who>) {
    let pass = town.pass();
    let stuck = stuck(&pass, &pass);
    (stuck.iter().map(whose).collect(), victims(&found(town)))
}

fn found(town: &Town) -> Vec<Deadlock> {
    let pass = town.pass();
    find(&pass, &pass)
}

/// Returns a town of holds and waits, in this order.
fn town(holds: &[(usize, Who, Mode)], waits: &[(usize, Who, Mode)]) -> Town {
    let mut town = Town::default();
    for (name, who, mode) in holds {
        town.hold(*name, *who, *mode);
    }
    for (name, who, mode) in waits {
        town.wait(*name, *who, *mode);
    }
    town
}

const ONE: Who = actor(1);
const TWO: Who = actor(2);
const THREE: Who = actor(3);
const FOUR: Who = actor(4);

#[test]
fn a_request_for_more_than_a_lowered_limit_is_in_nobodys_way() {
    let more = Mode::Semaphore(Permits::new(LIMIT + 1, LIMIT + 1).unwrap());
    // Before it is another waiter, which may go on with something else.
    let lowered = |first: Mode, second: Mode| {
        town(
            &[(A, ONE, permits(1)), (B, TWO, X), (C, nobody(9), X)],
            &[
                (A, FOUR, first),
                (C, FOUR, X),
                (A, TWO, second),
                (B, ONE, X),
            ],
        )
    };
    assert_eq!(look(&lowered(X, more)), (vec![], vec![]));
    let stuck = look(&lowered(X, X));
    assert_eq!(stuck, (vec![TWO, ONE], vec![ONE]));
}

#[test]
fn several_victims_end_when_no_single_end_helps() {
    // Each name has two readers, and the third actor wants to write it.
    let town = town(
        &[
            (A, TWO, S),
            (A, THREE, S),
            (B, ONE, S),
            (B, THREE, S),
            (C, ONE, S),
            (C, TWO, S),
        ],
        &[(A, ONE, X), (B, TWO, X), (C, THREE, X)],
    );
    assert_eq!(look(&town).1, [THREE, TWO]);
}

#[test]
fn a_victim_that_is_not_needed_is_spared() {
    // One, three and five read b, two, four and six read a, and each wants to write the other. The end of none of them alone
    // helps anybody. Six, five and four would be the first, but to let one go on, those who read a are enough.
    let even = |number| (number % 2) as usize;
    let mut town = Town::default();
    for number in 1..=6 {
        town.hold(even(number), actor(number), S);
        town.wait(1 - even(number), actor(number), X);
    }
    assert_eq!(look(&town).1, [actor(6), actor(4), TWO]);
}
