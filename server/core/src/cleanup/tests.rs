use super::*;
use crate::{
    command::{End, Executed},
    time::StoreTime,
};

const SECOND: Duration = Duration::from_secs(1);
const RELEASED_AT: StoreTime = StoreTime::from_micros(1);

fn name() -> LockName {
    LockName::parse("a").unwrap()
}

fn owner(number: u8) -> OwnerId {
    OwnerId::from_bytes([number; 16])
}

fn forgotten(released_at: Option<StoreTime>) -> Output {
    let owner = owner(1);
    Output::Forget { owner, released_at }
}

fn lost() -> Output {
    Output::Lost(LockName::parse("a").unwrap(), owner(1))
}

fn at(seconds: u32) -> Moment {
    Moment::from_micros(0).after(SECOND * seconds)
}

fn cleanup(number: u8) -> PendingCleanup {
    PendingCleanup {
        name: name(),
        owner: owner(number),
        end: End::Unclean,
        may_arrive_until: None,
        gone_at: at(60),
        asks: false,
    }
}

/// A release that has found what it was to release, or nothing.
fn released(found: bool, sent_at: Moment) -> Result<Stamped, StoreError> {
    let executed = Executed {
        reply: Reply::Released {
            held: found,
            waited: false,
            closed_for: None,
        },
        at: RELEASED_AT,
        handed: Vec::new(),
        more: false,
    };
    Ok(Stamped { executed, sent_at })
}

fn unavailable() -> Result<Stamped, StoreError> {
    let reason = "down".to_owned();
    Err(StoreError::Unavailable { reason })
}

/// Cleanups with one that is pending, and the command that its release sends.
fn releasing(pending: PendingCleanup) -> (Cleanups, CommandId) {
    let mut cleanups = Cleanups::default();
    cleanups.add(pending);
    let id = sent(&mut cleanups, 1);
    (cleanups, id)
}

/// Takes the next output, which sends a release, and returns its command.
fn sent(cleanups: &mut Cleanups, number: u8) -> CommandId {
    match cleanups.poll_output() {
        Some(Output::Store { id, name: of, op }) => {
            let (owner, end) = (owner(number), End::Unclean);
            assert_eq!((of, op), (name(), Op::Release { owner, end }));
            id
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_release_that_found_something_is_over() {
    let (mut cleanups, id) = releasing(cleanup(1));
    assert_eq!((cleanups.poll_output(), cleanups.len()), (None, 1));
    cleanups.on_answer(id, released(true, at(0)), at(0));
    assert_eq!(cleanups.poll_output(), Some(forgotten(Some(RELEASED_AT))));
    assert!(cleanups.is_empty() && cleanups.next_timeout().is_none());
}

#[test]
fn one_that_may_have_come_before_its_acquire_is_sent_again_until_that_can_not_arrive() {
    let mut cleanups = Cleanups::default();
    cleanups.add(PendingCleanup {
        may_arrive_until: Some(at(3)),
        ..cleanup(1)
    });
    for second in [0, 1, 2] {
        let id = sent(&mut cleanups, 1);
        cleanups.on_answer(id, released(false, at(second)), at(second));
        assert_eq!(cleanups.poll_output(), None);
        let due = cleanups.next_timeout().unwrap();
        assert_eq!(due, at(second).after(RETRY));
        cleanups.handle_timeout(at(second));
        assert_eq!(cleanups.poll_output(), None, "it is too early");
        cleanups.handle_timeout(due);
    }
    let id = sent(&mut cleanups, 1);
    cleanups.on_answer(id, released(false, at(3)), at(3));
    assert_eq!(cleanups.poll_output(), Some(forgotten(None)));
    assert!(cleanups.is_empty());
}

#[test]
fn one_that_fails_is_tried_until_the_store_has_let_it_expire() {
    let mut cleanups = Cleanups::default();
    cleanups.add(cleanup(1));
    for second in [0, 59] {
        let id = sent(&mut cleanups, 1);
        cleanups.on_answer(id, unavailable(), at(second));
        assert_eq!(cleanups.poll_output(), None);
        cleanups.handle_timeout(at(second).after(RETRY));
    }
    let id = sent(&mut cleanups, 1);
    cleanups.on_answer(id, unavailable(), at(60));
    assert_eq!(cleanups.poll_output(), Some(forgotten(None)));
    assert!(cleanups.is_empty());
}

#[test]
fn while_the_store_is_down_tries_are_rare_and_when_it_is_back_they_follow_at_once() {
    let mut cleanups = Cleanups::default();
    cleanups.on_store_up(false);
    cleanups.add(cleanup(1));
    let id = sent(&mut cleanups, 1);
    cleanups.on_answer(id, unavailable(), at(0));
    let due = at(0).after(RETRY);
    assert_eq!(cleanups.next_timeout(), Some(due.after(DOWN_RETRY)));
    cleanups.handle_timeout(due);
    assert_eq!(cleanups.poll_output(), None);
    cleanups.on_store_up(true);
    assert_eq!(cleanups.next_timeout(), Some(due));
    cleanups.handle_timeout(due);
    sent(&mut cleanups, 1);
}

#[test]
fn what_is_no_lock_is_over_and_a_failure_that_stays_is_told() {
    let mut cleanups = Cleanups::default();
    cleanups.add(cleanup(1));
    cleanups.add(cleanup(2));
    let ids = [1, 2].map(|number| sent(&mut cleanups, number));

    cleanups.on_answer(ids[0], Err(StoreError::WrongType { name: name() }), at(0));
    assert_eq!(cleanups.poll_output(), Some(forgotten(None)));
    let reason = "?".to_owned();
    let garbled = StoreError::Garbled { reason };
    cleanups.on_answer(ids[1], Err(garbled.clone()), at(0));
    let outputs: Vec<_> = std::iter::from_fn(|| cleanups.poll_output()).collect();
    let recheck = Output::Recheck(name(), Duration::ZERO);
    assert_eq!(outputs, [recheck, Output::Failed(name(), garbled)]);
    assert_eq!(cleanups.len(), 1);
}

#[test]
fn a_name_that_a_release_closes_is_looked_at_when_it_opens() {
    let (mut cleanups, id) = releasing(cleanup(1));
    let mut stamped = released(true, at(0)).unwrap();
    stamped.executed.reply = Reply::Released {
        held: true,
        waited: false,
        closed_for: Some(SECOND),
    };
    cleanups.on_answer(id, Ok(stamped), at(0));
    let recheck = Output::Recheck(name(), SECOND);
    assert_eq!(cleanups.poll_output(), Some(recheck));
}

#[test]
fn a_name_whose_release_may_have_handed_it_on_is_looked_at_at_once() {
    let (mut cleanups, id) = releasing(cleanup(1));
    let reason = "lost".to_owned();
    cleanups.on_answer(id, Err(StoreError::Indeterminate { reason }), at(0));
    let recheck = Output::Recheck(name(), Duration::ZERO);
    assert_eq!(cleanups.poll_output(), Some(recheck));
    assert_eq!(cleanups.len(), 1, "it is tried again");
}

#[test]
fn the_death_of_a_client_with_very_many_locks_leaves_room_for_others() {
    let mut cleanups = Cleanups::default();
    for _ in 0..=MAX_IN_FLIGHT {
        cleanups.add(cleanup(1));
    }
    let ids: Vec<_> = (0..MAX_IN_FLIGHT).map(|_| sent(&mut cleanups, 1)).collect();
    assert_eq!(cleanups.poll_output(), None);
    cleanups.on_answer(ids[7], released(true, at(0)), at(0));
    assert_eq!(cleanups.poll_output(), Some(forgotten(Some(RELEASED_AT))));
    sent(&mut cleanups, 1);
    assert_eq!(cleanups.poll_output(), None);
}

#[test]
fn an_answer_of_another_operation_has_found_nothing_and_an_answer_counts_once() {
    let (mut cleanups, id) = releasing(PendingCleanup {
        may_arrive_until: Some(at(3)),
        ..cleanup(1)
    });
    let mut garbled = released(true, at(0)).unwrap();
    garbled.executed.reply = Reply::Renewed;
    for answer in [garbled, released(true, at(0)).unwrap()] {
        cleanups.on_answer(id, Ok(answer), at(0));
        assert_eq!((cleanups.poll_output(), cleanups.len()), (None, 1));
        assert_eq!(cleanups.next_timeout(), Some(at(0).after(RETRY)));
    }
}

/// Answers to the question whether a hold that was not renewed was resumed elsewhere, and whether its client has lost it then.
#[test]
fn a_hold_that_was_not_renewed_counts_as_lost_unless_another_stream_has_resumed_it() {
    let answer = |reply| {
        let executed = Executed {
            reply,
            at: RELEASED_AT,
            handed: Vec::new(),
            more: false,
        };
        Ok(Stamped {
            executed,
            sent_at: at(0),
        })
    };
    let wrong_type = Err(StoreError::WrongType { name: name() });
    let asked = || {
        let mut cleanups = Cleanups::default();
        cleanups.add(PendingCleanup {
            asks: true,
            ..cleanup(1)
        });
        match cleanups.poll_output() {
            Some(Output::Store {
                id,
                op: Op::Renew { .. },
                ..
            }) => (cleanups, id),
            other => panic!("{other:?}"),
        }
    };
    let (mut cleanups, id) = asked();
    cleanups.on_answer(id, answer(Reply::Lost(Loss::Resumed)), at(0));
    assert_eq!(cleanups.poll_output(), Some(Output::Moved(owner(1))));
    assert_eq!(cleanups.poll_output(), Some(forgotten(None)));
    assert!(cleanups.is_empty());

    for reply in [
        Reply::Lost(Loss::Deleted),
        Reply::Lost(Loss::Taken),
        Reply::Renewed,
    ] {
        let (mut cleanups, id) = asked();
        // What nobody answers is asked again.
        cleanups.on_answer(id, unavailable(), at(0));
        cleanups.handle_timeout(at(1));
        let Some(Output::Store {
            id,
            op: Op::Renew { .. },
            ..
        }) = cleanups.poll_output()
        else {
            panic!("it is not asked again");
        };
        cleanups.on_answer(id, answer(reply), at(1));
        assert_eq!(cleanups.poll_output(), Some(lost()));
        let Some(Output::Store {
            id,
            op: Op::Release { .. },
            ..
        }) = cleanups.poll_output()
        else {
            panic!("it is not released");
        };
        cleanups.on_answer(id, released(true, at(1)), at(1));
        let output = cleanups.poll_output();
        assert_eq!(output, Some(forgotten(Some(RELEASED_AT))));
        assert!(cleanups.is_empty());
    }
    let (mut cleanups, id) = asked();
    cleanups.on_answer(id, wrong_type, at(0));
    assert_eq!(cleanups.poll_output(), Some(lost()));
    assert_eq!(cleanups.poll_output(), Some(forgotten(None)));
}
