//! Errors of requests about a hold, and of work that runs under one.

use std::sync::Arc;

use super::{AcquireError, Failure};
use crate::{lease::LostReason, token::FencingToken};

/// Error of a request about a hold: a release, a change of its value, a downgrade, a return of some permits.
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// use leasehold_client::{HoldError, LostReason};
///
/// let guard = client.lock("printer").await?;
/// client.admin().force_release("printer").await?;
/// assert_eq!(guard.lost().await, LostReason::Forced);
/// let error = guard.release().await.unwrap_err();
/// assert!(matches!(error, HoldError::Lost { reason: LostReason::Forced, .. }));
/// # Ok(()) });
/// ```
#[derive(thiserror::Error, Clone, Debug)]
#[non_exhaustive]
pub enum HoldError {
    /// The lock was lost before.
    #[error("lock {name:?} was lost before: {reason}")]
    Lost {
        /// The lock's name.
        name: Arc<str>,
        /// The reason.
        reason: LostReason,
    },
    /// No answer came within ten seconds, or the stream ended before and with it all that the session held. The coordinator
    /// may have carried the request out, or may do so later; a release goes on in the background while the session has a
    /// stream.
    #[error(
        "the coordinator did not answer about lock {name:?}, so it is not known whether that was done"
    )]
    Unconfirmed {
        /// The lock's name.
        name: Arc<str>,
    },
    /// The coordinator could not serve the request. A release is repeated in the background until it is served.
    #[error("the coordinator could not serve a request about lock {name:?}")]
    Refused {
        /// The lock's name.
        name: Arc<str>,
        /// The coordinator's answer.
        source: Failure,
    },
}

/// A [`HoldError`] without the lock's name.
#[derive(Debug)]
pub(crate) enum HoldFailure {
    Lost(LostReason),
    Unconfirmed,
    Refused(Failure),
}

impl HoldFailure {
    pub(crate) fn about(self, name: Arc<str>) -> HoldError {
        match self {
            Self::Lost(reason) => HoldError::Lost { name, reason },
            Self::Unconfirmed => HoldError::Unconfirmed { name },
            Self::Refused(source) => HoldError::Refused { name, source },
        }
    }
}

impl HoldError {
    /// Returns whether the same request may succeed later.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Lost { .. } | Self::Unconfirmed { .. } => false,
            Self::Refused { source, .. } => source.is_retryable(),
        }
    }
}

/// Error of work that runs under a lock.
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// use leasehold_client::{LostReason, WithLockError};
///
/// let admin = client.admin();
/// let outcome = client
///     .with_lock("printer", |_lock| async move {
///         admin.force_release("printer").await.ok();
///         std::future::pending::<()>().await
///     })
///     .await;
/// assert!(matches!(outcome, Err(WithLockError::Lost { reason: LostReason::Forced, .. })));
/// # Ok(()) });
/// ```
#[derive(thiserror::Error, Clone, Debug)]
#[non_exhaustive]
pub enum WithLockError {
    /// The lock was not acquired; the work was not started.
    #[error(transparent)]
    Acquire(#[from] AcquireError),
    /// The lock was lost while the work ran; the work was dropped where it stood.
    #[error("lock {name:?} was lost while the work ran: {reason}")]
    Lost {
        /// The lock's name.
        name: Arc<str>,
        /// The token of the lost hold.
        token: FencingToken,
        /// The reason.
        reason: LostReason,
    },
}

impl WithLockError {
    /// Returns whether the same work may succeed later. Work that was dropped half-way must be safe to run again.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Acquire(error) => error.is_retryable(),
            Self::Lost { reason, .. } => *reason != LostReason::SessionClosed,
        }
    }
}
