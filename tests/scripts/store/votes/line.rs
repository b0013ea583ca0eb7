//! Properties of the queue of one name.

use leasehold_core::{
    command::{Acquire, Op, Resume},
    id::{OwnerId, WaiterNumber},
    mode::Mode,
    time::StoreTime,
};
use leasehold_store::quorum::line::{Line, Place, Turn};
use proptest::{collection::vec, prelude::*};

use crate::common::{acquiring, caller, resume};

#[derive(Clone, Copy, Debug)]
enum Step {
    Join { waits: bool },
    Begin,
    Blocked,
    Granted,
    Leave(usize),
    TakeOver(usize),
}

fn turn(owner: OwnerId, wait: bool) -> Turn {
    let acquire = Acquire {
        owner,
        wait,
        ..acquiring(0, Mode::Exclusive)
    };
    Turn {
        acquire,
        caller: caller("here"),
    }
}

/// Returns a resume under this owner id.
fn resuming(next: OwnerId) -> Resume {
    match resume(&[], 0) {
        Op::Resume(resume) => Resume { next, ..resume },
        other => panic!("{other:?}"),
    }
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => any::<bool>().prop_map(|waits| Step::Join { waits }),
        3 => Just(Step::Begin),
        2 => Just(Step::Blocked),
        2 => Just(Step::Granted),
        1 => (0_usize..8).prop_map(Step::Leave),
        1 => (0_usize..8).prop_map(Step::TakeOver),
    ]
}

proptest! {
    #![proptest_config(super::config())]

    /// One acquire at a time; waiters in the order in which they joined; nobody is forgotten, and nobody who does not wait
    /// is left behind.
    #[test]
    fn a_line_is_served_in_order(steps in vec(step(), 0..60)) {
        let mut line = Line::default();
        let mut under_way = None;
        let mut next = 0_u8;
        let mut expected: Vec<(OwnerId, bool)> = Vec::new();
        for step in steps {
            match step {
                Step::Join { waits } => {
                    next += 1;
                    let owner = OwnerId::from_bytes([next; 16]);
                    line.join(turn(owner, waits), StoreTime::from_micros(0), None);
                    expected.push((owner, waits));
                }
                Step::Begin => {
                    let began = line.begin().map(|turn| turn.acquire.owner);
                    if under_way.is_some() {
                        prop_assert_eq!(began, None);
                    } else {
                        prop_assert_eq!(began, expected.first().map(|(owner, _)| *owner));
                        under_way = began;
                    }
                }
                Step::Blocked if under_way.take().is_some() => {
                    let (leaving, _) = line.blocked();
                    prop_assert!(leaving.iter().all(|place| !place.waits()));
                    expected.retain(|(_, waits)| *waits);
                }
                Step::Granted => {
                    if let Some(owner) = under_way.take() {
                        let was_there = expected.iter().any(|(other, _)| *other == owner);
                        let (place, _) = line.granted(&owner);
                        prop_assert_eq!(place.is_some(), was_there);
                        expected.retain(|(other, waits)| *other != owner && *waits);
                    }
                }
                Step::Leave(at) => {
                    if let Some((owner, _)) = expected.get(at).copied() {
                        prop_assert!(line.leave(&owner).is_some());
                        expected.remove(at);
                    }
                }
                Step::TakeOver(at) => {
                    if let Some(place) = expected.get_mut(at) {
                        next += 1;
                        let owner = OwnerId::from_bytes([next; 16]);
                        let resume = resuming(owner);
                        prop_assert!(line.take_over(&place.0, &caller("here"), &resume).is_some());
                        prop_assert!(line.take_over(&place.0, &caller("here"), &resume).is_none());
                        *place = (owner, true);
                    }
                }
                Step::Blocked => {}
            }
            let order: Vec<_> = line.iter().map(|place| (place.owner(), place.waits())).collect();
            prop_assert_eq!(&order, &expected);
            prop_assert_eq!(line.is_over(), expected.is_empty() && under_way.is_none());
        }
    }
}

#[test]
fn a_lock_that_came_free_during_an_attempt_is_tried_again() {
    let owner = OwnerId::from_bytes([1; 16]);
    let mut line = Line::default();
    line.join(turn(owner, true), StoreTime::from_micros(0), None);
    assert!(line.begin().is_some());
    assert!(line.begin().is_none());
    assert!(line.blocked().1);
    assert!(line.is_stuck());
    assert!(line.begin().is_some());
    assert!(!line.blocked().1);
}

#[test]
fn each_waiter_has_a_number_of_its_own_which_a_resume_keeps() {
    let [one, two, next] = [1, 2, 3].map(|byte| OwnerId::from_bytes([byte; 16]));
    let mut line = Line::default();
    let now = StoreTime::from_micros(7);
    line.join(turn(one, false), now, None);
    line.join(turn(two, true), now, None);
    let numbered = |line: &Line, number| {
        let place = line.numbered(WaiterNumber::new(number));
        place.map(Place::owner)
    };
    // The first one does not wait, and so is no waiter.
    assert_eq!((numbered(&line, 7), numbered(&line, 8)), (None, Some(two)));
    assert!(
        line.take_over(&two, &caller("here"), &resuming(next))
            .is_some()
    );
    assert_eq!(numbered(&line, 8), Some(next));
    assert!(line.leave(&next).is_some());
    line.join(turn(two, true), now, None);
    assert_eq!((numbered(&line, 8), numbered(&line, 9)), (None, Some(two)));
}
