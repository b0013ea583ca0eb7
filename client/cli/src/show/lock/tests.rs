use std::time::Duration;

use prost_types::{Duration as WireDuration, Timestamp};

use super::*;

/// When the tests look.
fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_000)
}

fn at(second: i64) -> Option<Timestamp> {
    Some(Timestamp {
        seconds: second,
        nanos: 0,
    })
}

fn seconds(seconds: i64) -> Option<WireDuration> {
    Some(WireDuration { seconds, nanos: 0 })
}

fn holder(client_name: &str, permits: u32) -> v1::Holder {
    v1::Holder {
        session_id: format!("session-of-{client_name}"),
        client_name: client_name.into(),
        coordinator: "c1".into(),
        fencing_token: 17,
        acquired_at: at(990),
        ttl: seconds(30),
        hold_count: 1,
        permits,
        ..Default::default()
    }
}

fn waiter(position: u64, mode: v1::LockMode, permits: u32) -> v1::Waiter {
    v1::Waiter {
        client_name: format!("w{position}"),
        coordinator: "c1".into(),
        waiting_since: at(995),
        position,
        mode: mode.into(),
        permits,
        ..Default::default()
    }
}

fn lock(name: &str, mode: v1::LockMode, holders: Vec<v1::Holder>) -> v1::LockView {
    v1::LockView {
        name: name.into(),
        mode: mode.into(),
        holder_count: holders.len() as u64,
        holders,
        fencing_token: 17,
        ..Default::default()
    }
}

fn semaphore(holders: Vec<v1::Holder>, permits_taken: u32, limit: u32) -> v1::LockView {
    v1::LockView {
        permits_taken,
        limit,
        ..lock("gpu", v1::LockMode::Semaphore, holders)
    }
}

fn assert_shown(lock: &v1::LockView, expected: &[&str]) {
    let shown = whole(lock, now());
    assert_eq!(shown.lines().collect::<Vec<_>>(), expected, "\n{shown}");
}

#[test]
fn the_list_tells_how_each_lock_is_held_and_by_how_many() {
    let mut many = lock("docs", v1::LockMode::Shared, vec![holder("reader", 0)]);
    many.holder_count = 250;
    let mut closed = lock("closed", v1::LockMode::Unspecified, Vec::new());
    closed.closed_for = seconds(15);
    let mut waiting = lock("held", v1::LockMode::Exclusive, vec![holder("writer", 0)]);
    waiting.waiter_count = 2;
    let locks = [
        waiting,
        many,
        semaphore(vec![holder("one", 2), holder("two", 1)], 3, 4),
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
    let mut held = holder("writer", 0);
    held.value = b"step 3".to_vec();
    held.hold_count = 2;
    held.actor = 7;
    let mut lock = lock("orders/1", v1::LockMode::Exclusive, vec![held]);
    lock.lock_delay = seconds(15);
    lock.waiters = vec![
        waiter(1, v1::LockMode::Shared, 0),
        waiter(2, v1::LockMode::Exclusive, 0),
        waiter(3, v1::LockMode::Semaphore, 2),
    ];
    lock.waiters[1].actor = 8;
    lock.waiter_count = 104;
    lock.limit = 5;
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
    let mut unnamed = holder("", 0);
    unnamed.session_id = "4711".into();
    unnamed.hold_count = 3;
    unnamed.value = b"v\x1b".to_vec();
    let mut lock = lock("docs", v1::LockMode::Shared, vec![holder("a", 0), unnamed]);
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
    let mut lock = semaphore(vec![holder("a", 2), holder("b", 1)], 4, 5);
    lock.closed_for = seconds(12);
    lock.waiters = vec![waiter(1, v1::LockMode::Semaphore, 2)];
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
    for (mode, permits_taken, state) in [
        (v1::LockMode::Unspecified, 0, "closed for 12s"),
        (
            v1::LockMode::Shared,
            0,
            "closed to exclusive holders for 12s",
        ),
        (v1::LockMode::Semaphore, 1, "1 of 5 permits closed for 12s"),
    ] {
        let mut lock = lock("a", mode, Vec::new());
        (lock.permits_taken, lock.limit) = (permits_taken, 5);
        lock.closed_for = seconds(12);
        let shown = whole(&lock, now());
        assert_eq!(
            shown.lines().nth(1),
            Some(format!("state         {state}").as_str()),
            "{shown}"
        );
    }
    assert_shown(
        &lock("a", v1::LockMode::Unspecified, Vec::new()),
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
    let foreign = v1::Holder {
        foreign: true,
        ..Default::default()
    };
    let mut lock = lock("a", v1::LockMode::Exclusive, vec![foreign]);
    lock.fencing_token = 0;
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
