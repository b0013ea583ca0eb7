//! Scenes of stuck actors and of the victims chosen among them.

use leasehold_core::{
    deadlock::{Deadlock, find, stuck},
    mode::{Mode, Permits},
};

use crate::deadlocks::{
    agreement::{victims, whose},
    town::{A, B, C, D, LIMIT, S, Town, UNARY, Who, X, actor, nobody, permits},
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
fn two_crosswise() {
    let town = town(&[(A, ONE, X), (B, TWO, X)], &[(B, ONE, X), (A, TWO, X)]);
    assert_eq!(look(&town), (vec![TWO, ONE], vec![TWO]));
}

#[test]
fn nobody_is_stuck_in_a_line() {
    let town = town(
        &[(A, ONE, X), (B, TWO, X), (C, THREE, X)],
        &[(B, ONE, X), (C, TWO, X)],
    );
    assert_eq!(look(&town), (vec![], vec![]));
}

#[test]
fn one_actor_waits_for_itself() {
    let town = town(&[(A, ONE, X), (B, TWO, X)], &[(A, ONE, X), (A, TWO, X)]);
    // The other one is younger, but its end would help nobody.
    assert_eq!(look(&town), (vec![ONE, TWO], vec![ONE]));
}

#[test]
fn actors_of_one_session_are_two() {
    let (seven, eight) = (
        Who {
            session: 1,
            actor: 7,
        },
        Who {
            session: 1,
            actor: 8,
        },
    );
    let crosswise = town(
        &[(A, seven, X), (B, eight, X)],
        &[(B, seven, X), (A, eight, X)],
    );
    assert_eq!(look(&crosswise), (vec![eight, seven], vec![eight]));

    // The other actor of its session waits for nothing, and may be about to release.
    let nearly = town(
        &[(A, ONE, X), (B, seven, X), (C, eight, X)],
        &[(B, ONE, X), (C, seven, X)],
    );
    assert_eq!(look(&nearly), (vec![], vec![]));

    // The same numbers in another session are others.
    let elsewhere = Who {
        session: 2,
        actor: 7,
    };
    let others = town(
        &[(A, seven, X), (B, eight, X)],
        &[(B, elsewhere, X), (A, eight, X)],
    );
    assert_eq!(look(&others), (vec![], vec![]));
}

#[test]
fn nobody_in_particular_is_taken_to_release() {
    for stranger in [nobody(2), UNARY] {
        let town = town(
            &[(A, ONE, X), (B, stranger, X)],
            &[(B, ONE, X), (A, stranger, X)],
        );
        assert_eq!(look(&town), (vec![], vec![]), "{stranger:?}");
    }
}

#[test]
fn a_semaphore_of_which_somebody_else_is_free_to_release() {
    let mut semaphore = town(
        &[(A, ONE, permits(2)), (A, THREE, permits(1)), (B, TWO, X)],
        &[(B, ONE, X), (A, TWO, permits(1))],
    );
    assert_eq!(look(&semaphore), (vec![], vec![]));

    // It does not help those who need more than that.
    semaphore.end(|edge| edge.mode == permits(1) && edge.who == TWO);
    semaphore.wait(A, TWO, permits(2));
    assert_eq!(look(&semaphore), (vec![TWO, ONE], vec![TWO]));
    semaphore.end(|edge| edge.mode == permits(2) && edge.who == TWO);
    semaphore.wait(A, TWO, permits(1));

    // Now it is not free either.
    semaphore.wait(B, THREE, X);
    assert_eq!(look(&semaphore), (vec![TWO, ONE, THREE], vec![THREE]));
}

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
fn a_big_request_is_in_the_way_of_a_small_one() {
    let town = town(
        &[(A, ONE, permits(1)), (B, TWO, X)],
        &[
            (A, nobody(9), permits(3)),
            (A, TWO, permits(1)),
            (B, ONE, X),
        ],
    );
    assert_eq!(look(&town), (vec![TWO, ONE], vec![ONE]));
}

#[test]
fn a_reader_behind_a_writer() {
    // Whoever the writer is, it is in the way, and can't get past the first reader.
    for writer in [nobody(9), UNARY, THREE] {
        let town = town(
            &[(A, ONE, S), (B, TWO, X)],
            &[(A, writer, X), (A, TWO, S), (B, ONE, X)],
        );
        assert_eq!(look(&town), (vec![TWO, ONE], vec![ONE]), "{writer:?}");
    }
    // Without it, readers get along.
    let town = town(&[(A, ONE, S), (B, TWO, X)], &[(A, TWO, S), (B, ONE, X)]);
    assert_eq!(look(&town), (vec![], vec![]));
}

#[test]
fn a_writer_that_holds_something_may_be_the_one_to_give_up() {
    let town = town(
        &[(A, ONE, S), (B, TWO, X), (C, THREE, X)],
        &[(B, ONE, X), (A, THREE, X), (A, TWO, S)],
    );
    assert_eq!(look(&town).1, [TWO]);
    let mut town = town;
    // Its end lets the second reader in, and it is the youngest now.
    let younger = town.tick();
    town.line(A).queue[0].since = younger;
    assert_eq!(look(&town).1, [THREE]);
}

#[test]
fn a_free_actor_lets_the_others_go_on() {
    // Two is in the way of the writer, but three is all that it waits for.
    let town = town(
        &[(A, ONE, S), (A, TWO, S), (B, THREE, X)],
        &[(B, TWO, X), (A, FOUR, X)],
    );
    assert_eq!(look(&town), (vec![], vec![]));
}

#[test]
fn bystanders_are_not_accused() {
    let crosswise = [(A, ONE, X), (B, TWO, X), (C, THREE, X), (D, FOUR, X)];
    // Three waits for one, four for three: both are younger, and the end of three would help four, but no deadlock.
    let town = town(
        &crosswise,
        &[(B, ONE, X), (A, TWO, X), (A, THREE, X), (C, FOUR, X)],
    );
    let (stuck, accused) = look(&town);
    assert_eq!(stuck, [TWO, THREE, ONE, FOUR]);
    assert_eq!(accused, [TWO]);
}

#[test]
fn the_youngest_is_spared_if_its_end_helps_nobody() {
    // One waits for both readers; the end of three, the youngest, leaves two in its way.
    let town = town(
        &[(A, TWO, S), (A, THREE, S), (B, ONE, X)],
        &[(A, ONE, X), (B, TWO, X), (B, THREE, X)],
    );
    let (_, accused) = look(&town);
    assert_eq!(accused, [ONE]);
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

#[test]
fn of_the_same_age_the_greater_ticket_is_accused() {
    let mut town = town(&[(A, ONE, X), (B, TWO, X)], &[(B, ONE, X), (A, TWO, X)]);
    town.line(A).queue[0].since = 1;
    town.line(B).queue[0].since = 1;
    assert_eq!(look(&town).1, [TWO]);
    town.line(B).queue[0].since = 2;
    assert_eq!(look(&town).1, [ONE]);
}

#[test]
fn each_deadlock_has_its_victim() {
    let mut town = Town::default();
    for pair in 0..3 {
        let (one, two) = (actor(2 * pair + 1), actor(2 * pair + 2));
        let (a, b) = (2 * pair as usize, 2 * pair as usize + 1);
        town.hold(a, one, X);
        town.hold(b, two, X);
        town.wait(b, one, X);
        town.wait(a, two, X);
    }
    let (stuck, accused) = look(&town);
    assert_eq!(stuck.len(), 6);
    assert_eq!(accused, [actor(6), actor(4), actor(2)]);
}

#[test]
fn a_deadlock_that_waits_for_another() {
    let both = |wanted| {
        // One and two are crosswise over a and b; three and four over c and d, and one of these waits for one of those.
        town(
            &[
                (A, ONE, X),
                (B, TWO, X),
                (C, THREE, S),
                (C, TWO, S),
                (D, FOUR, X),
            ],
            &[(B, ONE, X), (A, TWO, X), (D, THREE, X), (C, FOUR, wanted)],
        )
    };
    // Once two has ended, three and four are still in each other's way.
    let (stuck, accused) = look(&both(X));
    assert_eq!(stuck.len(), 4);
    assert_eq!(accused, [TWO, FOUR]);
    // A reader would not be stuck by the other reader.
    assert_eq!(look(&both(S)).1, [TWO]);
}

#[test]
fn an_actor_goes_on_with_the_first_that_it_gets() {
    // Two waits for a, which one holds, and for c, which is about to be free.
    let mut town = town(
        &[(A, ONE, X), (B, TWO, X), (C, THREE, X)],
        &[(B, ONE, X), (A, TWO, X), (C, TWO, X)],
    );
    assert_eq!(look(&town), (vec![], vec![]));
    town.wait(B, THREE, X);
    // The wait for b of three is the youngest, and its end lets two go on.
    assert_eq!(look(&town).1, [THREE]);
}

#[test]
fn an_actor_that_goes_on_may_give_its_other_waits_up() {
    // Nine holds nothing and waits for a and c. With c, it may not want a any longer.
    let mut town = town(
        &[(A, ONE, S), (B, TWO, X), (C, THREE, X)],
        &[(A, actor(9), X), (A, TWO, S), (B, ONE, X), (C, actor(9), X)],
    );
    assert_eq!(look(&town), (vec![], vec![]));
    town.end(|edge| edge.who == THREE);
    town.hold(C, ONE, X);
    assert_eq!(look(&town).1, [ONE]);
}
