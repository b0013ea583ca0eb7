//! Sessions whose clients send no heartbeat: the time at which they end, and the fate of their locks.

use std::time::Duration;

use leasehold_tests::{Coordinator, RawSession};
use tonic::Status;
use tonic_types::StatusExt;

const TTL: Duration = Duration::from_secs(4);
/// Time within which anything is done, on a busy machine too.
const LIMIT: Duration = Duration::from_secs(20);

/// Asserts that a stream ended because its session was silent.
fn assert_silent(end: Result<(), Status>) {
    let status = end.expect_err("the session was silent");
    let info = status.get_details_error_info().unwrap();
    assert_eq!(info.reason, "SESSION_SILENT");
}

#[tokio::test]
async fn late_grants_of_a_silent_session_are_released_with_it() {
    let coordinator = Coordinator::in_process();
    let mut silent = RawSession::open(&coordinator.endpoint(), TTL).await;
    let mut next = RawSession::open(&coordinator.endpoint(), TTL).await;
    next.keep_alive(TTL / 6);
    // The key of a lock that is granted now outlasts the session by half a TTL.
    tokio::time::sleep(TTL / 2).await;
    let late = silent.acquire("late").await.lock;
    let id = next.ask("late", None).await;
    next.queued(id).await;
    assert_silent(silent.end(LIMIT).await);
    let granted = next.granted(id, LIMIT).await.lock;
    // Tokens are microseconds of the store's time.
    let apart = granted.fencing_token - late.fencing_token;
    let ttl = i64::try_from(TTL.as_micros()).unwrap();
    assert!(
        apart < ttl,
        "granted {apart} µs later, when the key had expired"
    );
    next.close().await;
}

#[tokio::test]
async fn a_session_that_is_silent_ends_in_time_although_the_machine_was_suspended() {
    let coordinator = Coordinator::in_process();
    let mut silent = RawSession::open(&coordinator.endpoint(), TTL).await;
    // By the coordinator's timers the session has as much left afterwards as before.
    let asleep = TTL * 5 / 8;
    coordinator.suspend(asleep).await;
    // Silent, too; it ends after the first one should, and before that would if nothing told it of the suspension.
    let mut later = RawSession::open(&coordinator.endpoint(), asleep + TTL / 16).await;
    tokio::select! {
        biased;
        end = silent.end(LIMIT) => assert_silent(end),
        end = later.end(LIMIT) => panic!("the later one ended first: {end:?}"),
    }
    assert_silent(later.end(LIMIT).await);
}
