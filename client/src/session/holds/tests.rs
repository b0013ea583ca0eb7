use super::*;
use crate::token::FencingToken;

fn at(millis: u64) -> Moment {
    Moment::from_nanos(millis * 1_000_000)
}

fn hold(holds: &mut Holds, owner: u8, lock_delay: u64, deadline: u64) -> (u64, Arc<Lease>) {
    let lease = Arc::new(Lease::new(
        "a".into(),
        FencingToken::from(1),
        at(deadline),
        None,
    ));
    let delay = Duration::from_millis(lock_delay);
    let key = holds.insert(lease.clone(), vec![owner], delay, at(deadline));
    (key, lease)
}

#[test]
fn an_expired_hold_is_given_back_at_once_or_after_its_lock_delay() {
    let mut holds = Holds::default();
    hold(&mut holds, 1, 0, 100);
    let (_, delayed) = hold(&mut holds, 2, 50, 100);
    assert_eq!(holds.check_at(), Some(at(100)));
    assert!(holds.expire(at(99)).is_empty());

    let released = holds.expire(at(100));
    assert_eq!(released.len(), 1);
    assert_eq!(released[0].ids.confirmed(), [1]);
    assert_eq!(delayed.alive(at(100)), Err(LostReason::Expired));
    assert_eq!(holds.check_at(), Some(at(150)));

    assert_eq!(holds.expire(at(150))[0].ids.confirmed(), [2]);
    assert!(holds.is_empty());
    assert_eq!(holds.check_at(), None);
}

#[test]
fn a_guard_that_goes_before_the_lock_delay_has_passed_gives_back_at_once() {
    let mut holds = Holds::default();
    let (key, _) = hold(&mut holds, 1, 50, 100);
    holds.expire(at(100));
    assert!(holds.remove(key).is_ok());
    assert!(matches!(holds.remove(key), Err(LostReason::Released)));
    assert!(holds.is_empty());
}

#[test]
fn an_extension_moves_the_next_check() {
    let mut holds = Holds::default();
    let (_, lease) = hold(&mut holds, 1, 0, 100);
    holds.extend(at(300));
    assert!(holds.expire(at(100)).is_empty());
    assert_eq!(holds.check_at(), Some(at(300)));
    assert_eq!(lease.alive(at(299)), Ok(at(300)));
}

#[test]
fn holds_that_the_coordinator_lost_are_not_given_back() {
    let mut holds = Holds::default();
    let (key, lease) = hold(&mut holds, 1, 0, 100);
    holds.lost(&[9], at(1), LostReason::Forced);
    assert_eq!(lease.alive(at(1)), Ok(at(100)));
    holds.lost(&[1], at(1), LostReason::Forced);
    assert_eq!(lease.alive(at(1)), Err(LostReason::Forced));
    assert!(holds.expire(at(200)).is_empty());
    assert!(matches!(holds.remove(key), Err(LostReason::Forced)));
}

#[test]
fn dropping_the_table_ends_every_hold() {
    let mut holds = Holds::default();
    let (_, lease) = hold(&mut holds, 1, 0, u64::MAX / 2_000_000);
    drop(holds);
    assert_eq!(lease.alive(at(1)), Err(LostReason::SessionEnded));
}
