use std::time::Duration;

use super::*;

/// Returns the time at which the tests look.
fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_000)
}

fn at(second: u64) -> Option<SystemTime> {
    Some(SystemTime::UNIX_EPOCH + Duration::from_secs(second))
}

fn seconds(seconds: u64) -> Option<Duration> {
    Some(Duration::from_secs(seconds))
}

fn holder(client_name: &str, permits: Option<u32>) -> Holder {
    let mut holder = Holder::default();
    holder.session_id = format!("session-of-{client_name}");
    holder.client_name = client_name.into();
    holder.coordinator = "c1".into();
    holder.fencing_token = Some(17.into());
    holder.acquired_at = at(990);
    holder.ttl = seconds(30);
    holder.hold_count = 1;
    holder.permits = permits;
    holder
}

fn waiter(position: u64, mode: LockMode, permits: Option<u32>) -> Waiter {
    let mut waiter = Waiter::default();
    waiter.client_name = format!("w{position}");
    waiter.coordinator = "c1".into();
    waiter.waiting_since = at(995);
    waiter.position = position;
    waiter.mode = Some(mode);
    waiter.permits = permits;
    waiter
}

fn lock(name: &str, mode: impl Into<Option<LockMode>>, holders: Vec<Holder>) -> LockView {
    let mut lock = LockView::default();
    lock.name = name.into();
    lock.mode = mode.into();
    lock.holder_count = holders.len() as u64;
    lock.holders = holders;
    lock.fencing_token = Some(17.into());
    lock
}

fn semaphore(holders: Vec<Holder>, permits_taken: u32, limit: u32) -> LockView {
    let mut lock = lock("gpu", LockMode::Semaphore, holders);
    lock.permits_taken = permits_taken;
    lock.limit = Some(limit);
    lock
}

fn assert_shown(lock: &LockView, expected: &[&str]) {
    let shown = whole(lock, now()).to_string();
    assert_eq!(shown.lines().collect::<Vec<_>>(), expected, "\n{shown}");
}

#[test]
fn the_list_tells_how_each_lock_is_held_and_by_how_many() {
    let mut many = lock("docs", LockMode::Shared, vec![holder("reader", None)]);
    many.holder_count = 250;
    let mut closed = lock("closed", None, Vec::new());
    closed.closed_for = seconds(15);
    let mut waiting = lock("held", LockMode::Exclusive, vec![holder("writer", None)]);
    waiting.waiter_count = 2;
    let locks = [
        waiting,
        many,
        semaphore(vec![holder("one", Some(2)), holder("two", Some(1))], 3, 4),
        closed,
    ];
    let shown = list(&locks, now()).to_string();
    assert_eq!(
        shown.lines().collect::<Vec<_>>(),
        [
            "NAME    MODE               HOLDER               TOKEN  HELD FOR  TTL  WAITERS",
            "held    exclusive          writer               17     10s       30s  2",
            "docs    shared             reader and 249 more  17     10s       30s  0",
            "gpu     semaphore, 3 of 4  one and 1 more       17     10s       30s  0",
            "closed  -                  closed for 15s       17     -         15s  0",
        ],
        "\n{shown}"
    );
}

#[test]
fn an_exclusive_holder_is_shown_in_facts() {
    let mut held = holder("writer", None);
    held.value = b"step 3".to_vec();
    held.hold_count = 2;
    held.actor = Some(7);
    let mut lock = lock("orders/1", LockMode::Exclusive, vec![held]);
    lock.lock_delay = seconds(15);
    lock.waiters = vec![
        waiter(1, LockMode::Shared, None),
        waiter(2, LockMode::Exclusive, None),
        waiter(3, LockMode::Semaphore, Some(2)),
    ];
    lock.waiters[1].actor = Some(8);
    lock.waiter_count = 104;
    lock.limit = Some(5);
    assert_shown(
        &lock,
        &[
            "name          orders/1",
            "state         held exclusively",
            "newest token  17",
            "holder        writer",
            "session       session-of-writer",
            "actor         7",
            "coordinator   c1",
            "held for      10s",
            "held          2 times",
            "ttl left      30s",
            "value         step 3",
            "lock-delay    15s",
            "waiters       104",
            "",
            "   WAITER  WANTS           WAITING FOR  ACTOR  COORDINATOR",
            "1  w1      shared          5.0s                c1",
            "2  w2      exclusive       5.0s         8      c1",
            "3  w3      2 of 5 permits  5.0s                c1",
            "and 101 more that wait",
        ],
    );
}

#[test]
fn shared_holders_have_a_line_each() {
    let mut unnamed = holder("", None);
    unnamed.session_id = "4711".into();
    unnamed.hold_count = 3;
    unnamed.value = b"v\x1b".to_vec();
    let mut lock = lock("docs", LockMode::Shared, vec![holder("a", None), unnamed]);
    lock.holder_count = 3;
    lock.closed_for = seconds(12);
    assert_shown(
        &lock,
        &[
            "name          docs",
            "state         shared by 3",
            "newest token  17",
            "closed        to exclusive holders, for 12s",
            "holders       3",
            "waiters       0",
            "",
            r"HOLDER        HELD     TOKEN  HELD FOR  TTL LEFT  SESSION       COORDINATOR  VALUE",
            r"a                      17     10s       30s       session-of-a  c1",
            r"session 4711  3 times  17     10s       30s                     c1           v\u{1b}",
            "and 1 more that hold it",
        ],
    );
}

#[test]
fn a_semaphore_tells_its_permits() {
    let mut lock = semaphore(vec![holder("a", Some(2)), holder("b", Some(1))], 4, 5);
    lock.closed_for = seconds(12);
    lock.waiters = vec![waiter(1, LockMode::Semaphore, Some(2))];
    lock.waiter_count = 1;
    assert_shown(
        &lock,
        &[
            "name          gpu",
            "state         4 of 5 permits taken",
            "newest token  17",
            "closed        the permits of lost holds, for 12s",
            "holders       2",
            "waiters       1",
            "",
            "HOLDER  PERMITS  TOKEN  HELD FOR  TTL LEFT  SESSION       COORDINATOR",
            "a       2        17     10s       30s       session-of-a  c1",
            "b       1        17     10s       30s       session-of-b  c1",
            "",
            "   WAITER  WANTS           WAITING FOR  COORDINATOR",
            "1  w1      2 of 5 permits  5.0s         c1",
        ],
    );
}

#[test]
fn a_lock_that_nobody_holds_is_free_or_closed_as_its_last_holder_left_it() {
    let (shared, semaphore) = (Some(LockMode::Shared), Some(LockMode::Semaphore));
    for (mode, permits_taken, state) in [
        (None, 0, "closed for 12s"),
        (shared, 0, "closed to exclusive holders for 12s"),
        (semaphore, 1, "1 of 5 permits closed for 12s"),
    ] {
        let mut lock = lock("a", mode, Vec::new());
        (lock.permits_taken, lock.limit) = (permits_taken, Some(5));
        lock.closed_for = seconds(12);
        let shown = whole(&lock, now()).to_string();
        let line = format!("state         {state}");
        assert_eq!(shown.lines().nth(1), Some(&*line), "{shown}");
    }
    assert_shown(
        &lock("a", None, Vec::new()),
        &[
            "name          a",
            "state         free",
            "newest token  17",
            "waiters       0",
        ],
    );
}

#[test]
fn a_foreign_holder_is_shown_without_what_it_does_not_have() {
    let mut foreign = Holder::default();
    foreign.foreign = true;
    let mut lock = lock("a", LockMode::Exclusive, vec![foreign]);
    lock.fencing_token = None;
    assert_shown(
        &lock,
        &[
            "name          a",
            "state         held exclusively",
            "newest token  -",
            "holder        (not a Leasehold client)",
            "held for      -",
            "ttl left      never ends",
            "waiters       0",
        ],
    );
}
