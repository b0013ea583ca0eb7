//! Requests out of bounds: each gets the documented error with the fields named, and nothing else is disturbed.

mod sessions;
mod unary;
pub(crate) mod values;

use std::time::Duration;

use leasehold_tests::{
    Coordinator, RawSession,
    raw::{Granted, reason},
};
use tonic::{Code, Status};
use tonic_types::StatusExt;

const TTL: Duration = Duration::from_secs(30);

/// Another client, which must not notice.
struct Bystander {
    session: RawSession,
    held: Granted,
}

impl Bystander {
    async fn new(coordinator: &Coordinator) -> Self {
        let mut session = RawSession::open(&coordinator.endpoint(), TTL).await;
        let held = session.acquire("bystander").await;
        Self { session, held }
    }

    async fn assert_undisturbed(mut self) {
        self.session.heartbeat().await;
        assert!(self.session.release(&self.held.lock).await);
        self.session.close().await;
    }
}

pub(crate) fn assert_invalid(status: &Status, field: &str, what: &str) {
    assert_eq!(status.code(), Code::InvalidArgument, "{what}: {status:?}");
    assert_eq!(reason(status), "INVALID_FIELD", "{what}");
    let bad = status.get_details_bad_request();
    let bad = bad.unwrap_or_else(|| panic!("{what}: no BadRequest in {status:?}"));
    let fields: Vec<_> = bad.field_violations.iter().map(|bad| &bad.field).collect();
    assert_eq!(fields, [field], "{what}");
    assert!(!bad.field_violations[0].description.is_empty(), "{what}");
    assert!(!status.message().is_empty(), "{what}");
}
