//! Sessions whose clients send no heartbeat while the machine is suspended.

use std::time::Duration;

use leasehold_tests::{Coordinator, RawSession, raw};
use tonic::Status;

const TTL: Duration = Duration::from_secs(4);
/// Time within which anything is done, on a busy machine too.
const LIMIT: Duration = Duration::from_secs(20);

/// Asserts that a stream ended because its session was silent.
fn assert_silent(end: Result<(), Status>) {
    let status = end.expect_err("the session was silent");
    assert_eq!(raw::reason(&status), "SESSION_SILENT");
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
