//! Errors of acquiring a lock.

use std::{sync::Arc, time::Duration};

use super::{ConnectError, Failure};
use crate::proto::v1;

/// Why a lock was not acquired.
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// use std::time::Duration;
/// use leasehold_client::AcquireError;
///
/// let _held = client.lock("printer").acquire().await?;
/// let error = client.lock("printer").wait(Duration::from_millis(20)).acquire().await.unwrap_err();
/// assert!(matches!(error, AcquireError::TimedOut { holder: Some(_), .. }));
/// assert!(error.is_retryable());
/// # Ok(()) });
/// ```
#[derive(thiserror::Error, Clone, Debug)]
#[non_exhaustive]
pub enum AcquireError {
    /// Somebody else holds the lock, or others wait for it, and no wait was asked for.
    #[error("lock {name:?} is busy{}", by(holder))]
    Busy {
        /// The lock's name.
        name: Arc<str>,
        /// Who holds it, where that is known.
        holder: Option<Box<v1::Holder>>,
    },
    /// The lock did not come free for us within the wait asked for.
    #[error("lock {name:?} did not come free within {wait:?}{}", by(holder))]
    TimedOut {
        /// The lock's name.
        name: Arc<str>,
        /// The wait that was asked for.
        wait: Duration,
        /// Who holds it, where that is known.
        holder: Option<Box<v1::Holder>>,
    },
    /// The coordinator could not serve the request.
    #[error("failed to acquire lock {name:?}")]
    Refused {
        /// The lock's name.
        name: Arc<str>,
        /// What it answered.
        source: Failure,
    },
    /// There was no coordinator to ask within the wait.
    #[error("failed to acquire lock {name:?}: no connection to a coordinator")]
    Unavailable {
        /// The lock's name.
        name: Arc<str>,
        /// Why the last attempt to connect failed; none if a connection broke or did not answer.
        source: Option<Arc<ConnectError>>,
    },
    /// The session was closed by this process.
    #[error("failed to acquire lock {name:?}: the session was closed")]
    SessionClosed {
        /// The lock's name.
        name: Arc<str>,
    },
}

impl AcquireError {
    /// Whether the same acquire may succeed later.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Busy { .. } | Self::TimedOut { .. } => true,
            Self::Refused { source, .. } => source.is_retryable(),
            Self::Unavailable { source, .. } => {
                source.as_ref().is_none_or(|source| source.is_retryable())
            }
            Self::SessionClosed { .. } => false,
        }
    }
}

fn by(holder: &Option<Box<v1::Holder>>) -> String {
    match holder {
        None => String::new(),
        Some(holder) if holder.foreign => {
            ": held by a program that does not use Leasehold".to_owned()
        }
        Some(holder) if !holder.client_name.is_empty() => {
            format!(": held by {:?}", holder.client_name)
        }
        Some(holder) if !holder.session_id.is_empty() => {
            format!(": held by session {}", holder.session_id)
        }
        Some(_) => ": held by a caller without a session".to_owned(),
    }
}
