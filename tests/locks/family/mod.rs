//! Modes and lock-delays on the wire, on a real Redis behind two coordinators and in memory. That the modes work on every kind of
//! store is a case of `stores`; their rules, and those of sessions, have properties and unit tests.

mod delays;
mod refusals;
mod semaphore;

use leasehold_proto::v1::SessionFailure;
use leasehold_tests::{RawSession, raw::PROMPT};
use tonic::Code;

/// Checks that a request is refused for this reason, and returns the refusal.
async fn refused(session: &mut RawSession, request_id: u64, reason: &str) -> SessionFailure {
    let refusal = session.refusal(request_id, PROMPT).await;
    assert_eq!(refusal.reason, reason, "{refusal:?}");
    assert_eq!(refusal.code, Code::FailedPrecondition as i32);
    refusal
}
