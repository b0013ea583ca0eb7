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
fn dropping_the_table_ends_every_hold() {
    let mut holds = Holds::default();
    let (_, lease) = hold(&mut holds, 1, 0, u64::MAX / 2_000_000);
    drop(holds);
    assert_eq!(lease.alive(at(1)), Err(LostReason::SessionEnded));
}
