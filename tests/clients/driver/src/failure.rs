//! Errors of the client, as the runner has them.

use leasehold_client::{
    AcquireError, ConnectError, Failure, FailureKind, HoldError, LostReason, WithLockError,
};
use serde_json::{Map, Value, json};

/// A request that failed.
#[derive(Debug, Clone)]
pub(crate) struct Failed(Map<String, Value>);

impl Failed {
    pub(crate) fn new(kind: &str) -> Self {
        Self(Map::new()).with("kind", json!(kind))
    }

    /// A fault of the runner or of this driver.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new("internal").with("message", json!(message.into()))
    }

    pub(crate) fn with(mut self, field: &str, value: Value) -> Self {
        self.0.insert(field.to_owned(), value);
        self
    }

    pub(crate) fn into_json(self) -> Value {
        Value::Object(self.0)
    }

    /// Returns whether the runner cancelled it.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.0.get("kind") == Some(&json!("cancelled"))
    }

    /// The loss of a lock.
    pub(crate) fn lost(name: &str, reason: LostReason) -> Self {
        Self::new("lost")
            .with("reason", json!(lost_reason(reason)))
            .with("name", json!(name))
    }

    /// A refusal of the coordinator.
    fn refused(kind: &str, failure: &Failure) -> Self {
        let mut failed = Self::new(kind)
            .with("reason", json!(failure.reason()))
            .with("message", json!(failure.to_string()));
        if let Some(after) = failure.retry_after() {
            failed = failed.with("retry_after_ms", json!(after.as_millis()));
        }
        failed
    }
}

impl From<&Failure> for Failed {
    fn from(failure: &Failure) -> Self {
        let kind = match failure.kind() {
            FailureKind::InvalidArgument => "invalid",
            FailureKind::Unauthenticated => "unauthenticated",
            FailureKind::PermissionDenied => "permission_denied",
            FailureKind::ResourceExhausted => "limit_reached",
            _ => "refused",
        };
        Self::refused(kind, failure)
    }
}

impl From<AcquireError> for Failed {
    fn from(error: AcquireError) -> Self {
        use AcquireError as E;
        match &error {
            E::Busy { .. } => Self::new("busy"),
            E::TimedOut { .. } => Self::new("timeout"),
            E::SelfDeadlock { source, .. } => Self::refused("self_deadlock", source),
            E::UpgradeRefused { source, .. } => Self::refused("upgrade_refused", source),
            E::Deadlock { source, .. } => Self::refused("deadlock", source),
            E::ForceReleased { source, .. } => Self::refused("force_released", source),
            E::LimitMismatch { source, limit, .. } => {
                Self::refused("limit_mismatch", source).with("limit", json!(limit))
            }
            E::AlreadyCandidate { .. } => Self::new("already_candidate"),
            E::Unavailable { .. } => Self::new("unavailable"),
            E::SessionClosed { .. } => Self::new("closed"),
            _ => match error.failure() {
                Some(failure) => Self::from(failure),
                None => Self::new("refused"),
            },
        }
        .with("message", json!(error.to_string()))
    }
}

impl From<HoldError> for Failed {
    fn from(error: HoldError) -> Self {
        match &error {
            HoldError::Lost { name, reason } => Self::lost(name, *reason),
            HoldError::Unconfirmed { .. } => Self::new("unconfirmed"),
            HoldError::Refused { source, .. } => Self::from(source),
            _ => Self::new("refused"),
        }
    }
}

impl From<WithLockError> for Failed {
    fn from(error: WithLockError) -> Self {
        match error {
            WithLockError::Acquire(error) => Self::from(error),
            WithLockError::Lost { name, reason, .. } => Self::lost(&name, reason),
            other => Self::internal(other.to_string()),
        }
    }
}

impl From<ConnectError> for Failed {
    fn from(error: ConnectError) -> Self {
        match error.failure() {
            Some(failure) => Self::from(failure),
            None => Self::new("unavailable"),
        }
        .with("message", json!(error.to_string()))
    }
}

/// Returns a reason by the name that all drivers use.
pub(crate) fn lost_reason(reason: LostReason) -> &'static str {
    match reason {
        LostReason::Expired => "expired",
        LostReason::Deleted => "deleted",
        LostReason::Taken => "taken",
        LostReason::Forced => "forced",
        LostReason::SessionEnded => "session_ended",
        LostReason::SessionClosed => "session_closed",
        LostReason::PermissionRevoked => "permission_revoked",
        LostReason::Unauthenticated => "unauthenticated",
        LostReason::Resumed => "resumed",
        LostReason::MaxHold => "max_hold",
        _ => "unknown",
    }
}
