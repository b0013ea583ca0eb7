//! The votes of masters.

use std::time::Duration;

use leasehold_core::time::Moment;
use leasehold_store::quorum::standing::{
    Agreement, Bootstrap, Candidate, Introduction, Run, Standing, Terms, bootstrap,
};
use proptest::{collection::vec, prelude::*};

const TERMS: Terms = Terms {
    hold: Duration::from_secs(10),
    durable: false,
};

fn at(seconds: u64) -> Moment {
    Moment::from_micros(seconds * 1_000_000)
}

fn introduction(run: &str) -> Introduction {
    Introduction {
        run: run.to_owned(),
        is_durable: None,
    }
}

fn agreed() -> Agreement {
    Agreement {
        hold: TERMS.hold_millis(),
        has_served: true,
        seen: Duration::ZERO,
        is_first: false,
        has_voted: false,
    }
}

/// An event at one master, and the seconds that pass before it.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A coordinator looks at it: one of three.
    Look(usize),
    /// A coordinator forgets everything.
    CoordinatorRestarts(usize),
    /// The server is started again.
    ServerRestarts,
}

fn event() -> impl Strategy<Value = (u64, Event)> {
    let event = prop_oneof![
        8 => (0_usize..3).prop_map(Event::Look),
        1 => (0_usize..3).prop_map(Event::CoordinatorRestarts),
        1 => Just(Event::ServerRestarts),
    ];
    (0_u64..8, event)
}

proptest! {
    #![proptest_config(super::config())]

    /// No coordinator counts a vote before its master has run for twice the longest hold, whatever coordinators come and go
    /// and whatever they note on the master. Their clocks began at different times.
    #[test]
    fn nobody_votes_too_early(events in vec(event(), 1..60)) {
        let began = [0, 100, 100_000];
        let (mut now, mut started, mut run) = (0, 0, 0);
        let mut known: [Option<Run>; 3] = [const { None }; 3];
        let mut mark: Option<(String, Duration)> = None;
        for (passed, event) in events {
            now += passed;
            match event {
                Event::ServerRestarts => {
                    started = now;
                    run += 1;
                }
                Event::CoordinatorRestarts(one) => known[one] = None,
                Event::Look(one) => {
                    let clock = at(began[one] + now);
                    let met = introduction(&run.to_string());
                    let mut of = Run::meet(&met, known[one].as_ref(), clock);
                    // As agree.lua does it.
                    let noted = mark.take().filter(|(id, _)| id == of.id());
                    let seen = noted.map_or(Duration::ZERO, |(_, seen)| seen).max(of.age(clock));
                    mark = Some((of.id().to_owned(), seen));
                    of.learn(seen, clock);
                    if of.standing(&met, &agreed(), &TERMS, clock) == Standing::Votes {
                        let age = Duration::from_secs(now - started);
                        prop_assert!(age >= TERMS.abstention(), "{age:?}");
                    }
                    known[one] = Some(of);
                }
            }
        }
    }

    /// A first start is declared only if no master knows a grant.
    #[test]
    fn a_first_start_is_no_second_one(known in vec((any::<bool>(), any::<bool>()), 3..=7)) {
        let candidates: Vec<Candidate> = known
            .iter()
            .map(|(is_first, knows_grants)| Candidate { is_first: *is_first, knows_grants: *knows_grants })
            .collect();
        let all_are_first = candidates.iter().all(|master| master.is_first);
        match bootstrap(&candidates) {
            Bootstrap::Declare => {
                prop_assert!(candidates.iter().all(|master| !master.knows_grants));
            }
            Bootstrap::Done => prop_assert!(all_are_first),
            Bootstrap::Refused(master) => {
                prop_assert!(candidates[master].knows_grants && !all_are_first);
            }
        }
    }
}

#[test]
fn the_times_that_coordinators_have_seen_of_a_run_add_up() {
    let met = introduction("a");
    let first = Run::meet(&met, None, at(1000));
    let seen = first.age(at(1012));
    assert_eq!(seen, Duration::from_secs(12));
    // Another coordinator, whose machine was started lately, goes on where that one stopped.
    let mut second = Run::meet(&met, None, at(3));
    second.learn(seen, at(3));
    assert_eq!(
        second.standing(&met, &agreed(), &TERMS, at(3)),
        Standing::Abstains { until: at(11) }
    );
    assert_eq!(
        second.standing(&met, &agreed(), &TERMS, at(11)),
        Standing::Votes
    );
    // What is less than it knows changes nothing.
    second.learn(Duration::from_secs(1), at(11));
    assert_eq!(
        second.standing(&met, &agreed(), &TERMS, at(11)),
        Standing::Votes
    );
}

#[test]
fn another_run_starts_from_nothing() {
    let old = Run::meet(&introduction("a"), None, at(1000));
    let met = introduction("b");
    let run = Run::meet(&met, Some(&old), at(2000));
    assert_eq!(
        run.standing(&met, &agreed(), &TERMS, at(2000)),
        Standing::Abstains { until: at(2020) }
    );
}

#[test]
fn agreements_and_declarations_count() {
    let young = introduction("a");
    let now = at(1000);
    let run = Run::meet(&young, None, now);
    let abstains = Standing::Abstains { until: at(1020) };
    assert_eq!(run.standing(&young, &agreed(), &TERMS, now), abstains);
    let first = Agreement {
        is_first: true,
        ..agreed()
    };
    assert_eq!(run.standing(&young, &first, &TERMS, now), Standing::Votes);
    let other = Agreement { hold: 1, ..first };
    assert_eq!(
        run.standing(&young, &other, &TERMS, now),
        Standing::Disagrees { hold: 1 }
    );
    // That its data once had a vote says nothing of data that may have been lost since.
    let voted = Agreement {
        has_voted: true,
        ..agreed()
    };
    assert_eq!(run.standing(&young, &voted, &TERMS, now), abstains);
    let durable = Terms {
        durable: true,
        ..TERMS
    };
    for (is_durable, has_voted, expected) in [
        (None, true, Standing::Votes),
        (Some(true), true, Standing::Votes),
        (Some(false), true, Standing::NotDurable),
        // Its disk may have been replaced.
        (Some(true), false, abstains.clone()),
        (None, false, abstains),
    ] {
        let told = Introduction {
            is_durable,
            ..young.clone()
        };
        let agreement = Agreement {
            has_voted,
            ..agreed()
        };
        assert_eq!(run.standing(&told, &agreement, &durable, now), expected);
    }
}
