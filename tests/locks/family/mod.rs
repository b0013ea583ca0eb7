//! Locks of every mode, as their clients have them: exclusive, shared, permits of a semaphore, several names at once,
//! reentrant, with a lock-delay, with values. On a real Redis behind two coordinators, and where it makes no difference
//! also in memory.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod delays;
mod reentrancy;
mod repeated;
mod semaphore;
mod several;
mod shared;
mod unary;
mod values;

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
