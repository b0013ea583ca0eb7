//! Errors of acquiring a lock.

use std::{sync::Arc, time::Duration};

use tonic::Code;

use super::{ConnectError, Failure, Rounded};
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
    #[error("lock {name:?} did not come free within {}{}", Rounded(*wait), by(holder))]
    TimedOut {
        /// The lock's name.
        name: Arc<str>,
        /// The wait that was asked for.
        wait: Duration,
        /// Who holds it, where that is known.
        holder: Option<Box<v1::Holder>>,
    },
    /// No coordinator knows who asks: there was no certificate and no token, or not one that is taken, or it has expired.
    #[error("failed to acquire lock {name:?}: the coordinator does not know who asks")]
    Unauthenticated {
        /// The lock's name.
        name: Arc<str>,
        /// What it answered.
        source: Failure,
    },
    /// The coordinator does not allow it.
    #[error("failed to acquire lock {name:?}: it is not allowed")]
    PermissionDenied {
        /// The lock's name.
        name: Arc<str>,
        /// What it answered: which permission was missing.
        source: Failure,
    },
    /// One of the coordinator's limits is reached. The same acquire may succeed later, or with less: locks, names,
    /// requests.
    #[error("failed to acquire lock {name:?}: a limit is reached")]
    LimitReached {
        /// The lock's name.
        name: Arc<str>,
        /// When to ask again, where it said so.
        retry_after: Option<Duration>,
        /// What it answered: which limit.
        source: Failure,
    },
    /// The coordinator could not serve the request, for another reason.
    #[error("failed to acquire lock {name:?}")]
    Refused {
        /// The lock's name.
        name: Arc<str>,
        /// What it answered.
        source: Failure,
    },
    /// The actor holds the lock already, or waits for it, and would have waited for itself. What it holds, it has once
    /// more with [`LockRequest::reentrant`](crate::LockRequest::reentrant).
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// use leasehold_client::AcquireError;
    ///
    /// let request = client.lock("printer").actor(client.actor());
    /// let _held = request.clone().acquire().await?;
    /// let error = request.acquire().await.unwrap_err();
    /// assert!(matches!(error, AcquireError::SelfDeadlock { .. }));
    /// # Ok(()) });
    /// ```
    #[error("failed to acquire lock {name:?}: its actor holds or waits for it already")]
    SelfDeadlock {
        /// The lock's name.
        name: Arc<str>,
        /// What the coordinator answered.
        source: Failure,
    },
    /// The actor holds the lock already, but in a weaker way than it asks for now: shared where it wants it
    /// exclusively, or fewer permits. Two who wait for that would wait for each other. Release it first, and ask
    /// anew.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// use leasehold_client::AcquireError;
    ///
    /// let request = client.lock("printer").actor(client.actor()).reentrant();
    /// let _held = request.clone().shared().acquire().await?;
    /// let error = request.acquire().await.unwrap_err();
    /// assert!(matches!(error, AcquireError::UpgradeRefused { .. }));
    /// # Ok(()) });
    /// ```
    #[error("failed to acquire lock {name:?}: its actor holds it in a weaker way")]
    UpgradeRefused {
        /// The lock's name.
        name: Arc<str>,
        /// What the coordinator answered.
        source: Failure,
    },
    /// Others hold or wait for permits of this semaphore with another limit.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// use leasehold_client::AcquireError;
    ///
    /// let _held = client.semaphore("downloads", 3).acquire(1).await?;
    /// let error = client.semaphore("downloads", 5).acquire(1).await.unwrap_err();
    /// assert!(matches!(error, AcquireError::LimitMismatch { limit: 3, .. }));
    /// # Ok(()) });
    /// ```
    #[error("failed to acquire permits of semaphore {name:?}: its limit is {limit}")]
    LimitMismatch {
        /// The semaphore's name.
        name: Arc<str>,
        /// The limit in force.
        limit: u32,
        /// What the coordinator answered.
        source: Failure,
    },
    /// Actors waited for one another in a circle, and this wait was chosen to be ended, as the youngest of them. The
    /// message of the source names the circle. Let go of what the actor holds, and begin anew.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// use leasehold_client::AcquireError;
    ///
    /// let (one, two) = (client.actor(), client.actor());
    /// let a = client.lock("a").actor(one).acquire().await?;
    /// let b = client.lock("b").actor(two).acquire().await?;
    /// let older = tokio::spawn(client.lock("b").actor(one).acquire());
    /// while client.admin().get_lock("b").await?.waiter_count == 0 {}
    /// let error = client.lock("a").actor(two).acquire().await.unwrap_err();
    /// assert!(matches!(error, AcquireError::Deadlock { .. }));
    /// b.release().await?;
    /// assert!(older.await??.is_held());
    /// # Ok(()) });
    /// ```
    #[error("failed to acquire lock {name:?}: the wait for it closed a deadlock")]
    Deadlock {
        /// The lock's name.
        name: Arc<str>,
        /// What the coordinator answered: who waited for whom.
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
    /// What a coordinator's refusal means.
    pub(crate) fn refused(name: Arc<str>, source: Failure) -> Self {
        let limit = source
            .metadata("limit")
            .and_then(|limit| limit.parse().ok());
        match (source.reason(), limit) {
            ("SELF_DEADLOCK", _) => Self::SelfDeadlock { name, source },
            ("UPGRADE_REFUSED", _) => Self::UpgradeRefused { name, source },
            ("DEADLOCK", _) => Self::Deadlock { name, source },
            ("LIMIT_MISMATCH", Some(limit)) => Self::LimitMismatch {
                name,
                limit,
                source,
            },
            _ => match source.code() {
                Code::Unauthenticated => Self::Unauthenticated { name, source },
                Code::PermissionDenied => Self::PermissionDenied { name, source },
                Code::ResourceExhausted => Self::LimitReached {
                    name,
                    retry_after: source.retry_after(),
                    source,
                },
                _ => Self::Refused { name, source },
            },
        }
    }

    /// There is no session to ask on.
    pub(crate) fn unconnected(name: Arc<str>, source: &Arc<ConnectError>) -> Self {
        match &**source {
            ConnectError::Unauthenticated { source, .. } => {
                let source = source.clone();
                Self::Unauthenticated { name, source }
            }
            ConnectError::PermissionDenied { source, .. } => {
                let source = source.clone();
                Self::PermissionDenied { name, source }
            }
            _ => Self::Unavailable {
                name,
                source: Some(source.clone()),
            },
        }
    }

    /// What the coordinator answered, where that is why.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let error = client.lock("").acquire().await.unwrap_err();
    /// assert_eq!(error.failure().unwrap().reason(), "INVALID_FIELD");
    /// # Ok(()) });
    /// ```
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Unauthenticated { source, .. }
            | Self::PermissionDenied { source, .. }
            | Self::LimitReached { source, .. }
            | Self::Refused { source, .. }
            | Self::SelfDeadlock { source, .. }
            | Self::UpgradeRefused { source, .. }
            | Self::LimitMismatch { source, .. }
            | Self::Deadlock { source, .. } => Some(source),
            Self::Busy { .. }
            | Self::TimedOut { .. }
            | Self::Unavailable { .. }
            | Self::SessionClosed { .. } => None,
        }
    }

    /// Whether the same acquire may succeed later. After a deadlock, that is when the actor has let go of what it
    /// holds.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Busy { .. } | Self::TimedOut { .. } | Self::Deadlock { .. } => true,
            Self::Unauthenticated { .. }
            | Self::PermissionDenied { .. }
            | Self::SelfDeadlock { .. }
            | Self::UpgradeRefused { .. }
            | Self::LimitMismatch { .. } => false,
            Self::LimitReached { source, .. } | Self::Refused { source, .. } => {
                source.is_retryable()
            }
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
