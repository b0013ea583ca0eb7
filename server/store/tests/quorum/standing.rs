//! Which masters have a vote.

use std::time::Duration;

use leasehold_core::time::Moment;
use leasehold_store::quorum::standing::{
    Agreement, Bootstrap, Introduction, Run, Standing, Terms, bootstrap,
};
use proptest::{collection::vec, option, prelude::*};

const TERMS: Terms = Terms {
    hold: Duration::from_secs(10),
    durable: false,
};

fn at(seconds: u64) -> Moment {
    Moment::from_micros(seconds * 1_000_000)
}

fn introduction(run: &str, uptime: u64) -> Introduction {
    Introduction {
        run: run.to_owned(),
        uptime: Duration::from_secs(uptime),
        is_durable: None,
    }
}

fn agreed() -> Agreement {
    Agreement {
        hold: TERMS.hold_millis(),
        has_served: true,
        first: None,
    }
}

proptest! {
    /// A vote is not counted before what was forgotten can't stand any more: by the true age of the run, however its
    /// seconds were cut.
    #[test]
    fn nobody_votes_too_early(age in 0_u64..60_000_000, cut in 0_u64..1_000_000) {
        let now = Moment::from_micros(1_000_000_000);
        // Start and now are cut to seconds, each where it happens to be.
        let reported = (age + cut) / 1_000_000;
        let met = introduction("a", reported);
        let run = Run::meet(&met, &TERMS, None, now);
        if run.standing(&met, &agreed(), &TERMS, now) == Standing::Votes {
            prop_assert!(Duration::from_micros(age) >= TERMS.abstention());
        }
    }

    /// Another run than the one that was heard last began after that, whatever its clock says.
    #[test]
    fn a_clock_that_steps_makes_nobody_older(heard in 0_u64..100, later in 0_u64..100, uptime: u32) {
        let now = at(1000 + heard + later);
        let before = introduction("a", 500);
        let old = Run::meet(&before, &TERMS, None, at(1000));
        let met = introduction("b", u64::from(uptime));
        let run = Run::meet(&met, &TERMS, Some((&old, at(1000 + heard))), now);
        if run.standing(&met, &agreed(), &TERMS, now) == Standing::Votes {
            prop_assert!(Duration::from_secs(later) >= TERMS.abstention());
        }
    }

    /// A first start is declared only of masters that were all reached and have not served, and a declaration is never
    /// doubted.
    #[test]
    fn a_first_start_is_no_second_one(known in vec(option::of((any::<bool>(), any::<bool>())), 3..=7)) {
        match bootstrap(&known) {
            Some(Bootstrap::Declare) => {
                prop_assert!(known.iter().all(|master| matches!(master, Some((_, false)))));
            }
            Some(Bootstrap::Done) => {
                prop_assert!(known.iter().any(|master| matches!(master, Some((true, _)))));
            }
            Some(Bootstrap::Refused(master)) => {
                prop_assert!(matches!(known[master], Some((false, true))));
                prop_assert!(!known.iter().any(|master| matches!(master, Some((true, _)))));
            }
            None => prop_assert!(known.iter().any(Option::is_none)),
        }
    }
}

#[test]
fn the_same_run_keeps_its_age() {
    let first = introduction("a", 15);
    let run = Run::meet(&first, &TERMS, None, at(1000));
    assert_eq!(
        run.standing(&first, &agreed(), &TERMS, at(1000)),
        Standing::Abstains { until: at(1006) }
    );
    // Its clock has stepped back.
    let again = introduction("a", 3);
    let same = Run::meet(&again, &TERMS, Some((&run, at(1001))), at(1006));
    assert_eq!(
        same.standing(&again, &agreed(), &TERMS, at(1006)),
        Standing::Votes
    );
}

#[test]
fn what_is_agreed_and_declared_counts() {
    let young = introduction("a", 0);
    let run = Run::meet(&young, &TERMS, None, at(1000));
    let now = at(1000);
    let first = |run: &str| Agreement {
        first: Some(run.to_owned()),
        ..agreed()
    };
    assert_eq!(
        run.standing(&young, &first("a"), &TERMS, now),
        Standing::Votes
    );
    assert!(matches!(
        run.standing(&young, &first("b"), &TERMS, now),
        Standing::Abstains { .. }
    ));
    let other = Agreement {
        hold: 1,
        ..first("a")
    };
    assert_eq!(
        run.standing(&young, &other, &TERMS, now),
        Standing::Disagrees { hold: 1 }
    );
    let durable = Terms {
        durable: true,
        ..TERMS
    };
    for (is_durable, expected) in [
        (None, Standing::Votes),
        (Some(true), Standing::Votes),
        (Some(false), Standing::NotDurable),
    ] {
        let told = Introduction {
            is_durable,
            ..young.clone()
        };
        assert_eq!(run.standing(&told, &agreed(), &durable, now), expected);
    }
}
