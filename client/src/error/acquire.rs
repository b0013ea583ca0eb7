//! Errors of acquiring a lock.

use std::{sync::Arc, time::Duration};

use leasehold_proto::Reason;

use super::{ConnectError, Failure, FailureKind, Rounded};
use crate::view::Holder;

/// Error of acquiring a lock or permits.
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// use std::time::Duration;
/// use leasehold_client::AcquireError;
///
/// let _held = client.lock("printer").await?;
/// let error = client.lock("printer").wait(Duration::from_millis(20)).await.unwrap_err();
/// assert!(matches!(error, AcquireError::TimedOut { holder: Some(_), .. }));
/// assert!(error.is_retryable());
/// # Ok(()) });
/// ```
#[derive(thiserror::Error, Clone, Debug)]
#[non_exhaustive]
pub enum AcquireError {
    /// Another client holds the lock, or others wait for it, and the request had no wait.
    #[error("lock {name:?} is busy{}", by(holder))]
    Busy {
        /// The lock's name.
        name: Arc<str>,
        /// A holder of the lock, if known.
        holder: Option<Box<Holder>>,
    },
    /// The lock did not come free for this request within its wait.
    #[error("lock {name:?} did not come free within {}{}", Rounded(*wait), by(holder))]
    TimedOut {
        /// The lock's name.
        name: Arc<str>,
        /// The wait of the request.
        wait: Duration,
        /// A holder of the lock, if known.
        holder: Option<Box<Holder>>,
    },
    /// The coordinator does not know the client: it showed no certificate and no token, or none that is valid.
    #[error("failed to acquire lock {name:?}: the coordinator does not know who asks")]
    Unauthenticated {
        /// The lock's name.
        name: Arc<str>,
        /// The coordinator's answer.
        source: Failure,
    },
    /// The coordinator does not allow the request.
    #[error("failed to acquire lock {name:?}: it is not allowed")]
    PermissionDenied {
        /// The lock's name.
        name: Arc<str>,
        /// The coordinator's answer, with the missing permission.
        source: Failure,
    },
    /// One of the coordinator's limits is reached. The same acquire may succeed later, or with less: locks, names,
    /// requests.
    #[error("failed to acquire lock {name:?}: a limit is reached")]
    LimitReached {
        /// The lock's name.
        name: Arc<str>,
        /// The pause after which to ask again, if the coordinator named one.
        retry_after: Option<Duration>,
        /// The coordinator's answer, with the limit.
        source: Failure,
    },
    /// The coordinator could not serve the request, for another reason.
    #[error("failed to acquire lock {name:?}")]
    Refused {
        /// The lock's name.
        name: Arc<str>,
        /// The coordinator's answer.
        source: Failure,
    },
    /// The actor holds the lock already, or waits for it, and would have waited for itself. Use
    /// [`LockRequest::reentrant`](crate::LockRequest::reentrant) to hold a lock more than once.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// use leasehold_client::AcquireError;
    ///
    /// let request = client.lock("printer").actor(client.actor());
    /// let _held = request.clone().await?;
    /// let error = request.await.unwrap_err();
    /// assert!(matches!(error, AcquireError::SelfDeadlock { .. }));
    /// # Ok(()) });
    /// ```
    #[error("failed to acquire lock {name:?}: its actor holds or waits for it already")]
    SelfDeadlock {
        /// The lock's name.
        name: Arc<str>,
        /// The coordinator's answer.
        source: Failure,
    },
    /// The session campaigns for this election already, or leads it, and would have waited behind itself. Change the value with
    /// [`Leadership::proclaim`](crate::Leadership::proclaim); campaign as another candidate on another session.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// use leasehold_client::AcquireError;
    ///
    /// let election = client.election("scheduler");
    /// let leadership = election.campaign("starting").await?;
    /// let error = election.campaign("ready").await.unwrap_err();
    /// assert!(matches!(error, AcquireError::AlreadyCandidate { .. }));
    /// leadership.proclaim("ready").await?;
    /// # Ok(()) });
    /// ```
    #[error(
        "failed to campaign for election {name:?}: this session campaigns for it already, or leads it"
    )]
    AlreadyCandidate {
        /// The election's name.
        name: Arc<str>,
    },
    /// The actor holds the lock already, but in a weaker way than it asks for now: shared instead of exclusively, or with
    /// fewer permits. Two actors that waited for an upgrade would wait for each other. Release the lock first, and ask anew.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// use leasehold_client::AcquireError;
    ///
    /// let request = client.lock("printer").actor(client.actor()).reentrant();
    /// let _held = request.clone().shared().await?;
    /// let error = request.await.unwrap_err();
    /// assert!(matches!(error, AcquireError::UpgradeRefused { .. }));
    /// # Ok(()) });
    /// ```
    #[error("failed to acquire lock {name:?}: its actor holds it in a weaker way")]
    UpgradeRefused {
        /// The lock's name.
        name: Arc<str>,
        /// The coordinator's answer.
        source: Failure,
    },
    /// Other clients hold or wait for permits of this semaphore with another limit of the same
    /// [revision](crate::Semaphore::limit_revision), or the limit in force is less than the permits that the
    /// request needs.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// use leasehold_client::AcquireError;
    ///
    /// let _held = client.semaphore("downloads", 3).permits(1).await?;
    /// let error = client.semaphore("downloads", 5).permits(1).await.unwrap_err();
    /// assert!(matches!(error, AcquireError::LimitMismatch { limit: 3, .. }));
    /// # Ok(()) });
    /// ```
    #[error("failed to acquire permits of semaphore {name:?}: its limit is {limit}")]
    LimitMismatch {
        /// The semaphore's name.
        name: Arc<str>,
        /// The limit in force.
        limit: u32,
        /// The coordinator's answer.
        source: Failure,
    },
    /// Actors waited for one another in a circle, and the coordinator ended this wait, the youngest of them. The message of
    /// the source names the circle. Release what the actor holds, and begin anew.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// use leasehold_client::AcquireError;
    ///
    /// let (one, two) = (client.actor(), client.actor());
    /// let a = client.lock("a").actor(one).await?;
    /// let b = client.lock("b").actor(two).await?;
    /// let older = tokio::spawn(client.lock("b").actor(one).into_future());
    /// while client.admin().get_lock("b").await?.waiter_count == 0 {}
    /// let error = client.lock("a").actor(two).await.unwrap_err();
    /// assert!(matches!(error, AcquireError::Deadlock { .. }));
    /// b.release().await?;
    /// assert!(older.await??.is_held());
    /// # Ok(()) });
    /// ```
    #[error("failed to acquire lock {name:?}: the wait for it closed a deadlock")]
    Deadlock {
        /// The lock's name.
        name: Arc<str>,
        /// The coordinator's answer, with the circle.
        source: Failure,
    },
    /// An operator ended the wait.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// use leasehold_client::AcquireError;
    ///
    /// let _held = client.lock("a").await?;
    /// let waiting = tokio::spawn(client.lock("a").into_future());
    /// let admin = client.admin();
    /// let number = loop {
    ///     if let [waiter] = &admin.get_lock("a").await?.waiters[..] {
    ///         break waiter.number.expect("this coordinator numbers waiters");
    ///     }
    /// };
    /// assert!(admin.force_release_waiter("a", number).await?.released);
    /// assert!(matches!(waiting.await?, Err(AcquireError::ForceReleased { .. })));
    /// # Ok(()) });
    /// ```
    #[error("failed to acquire lock {name:?}: an operator ended the wait for it")]
    ForceReleased {
        /// The lock's name.
        name: Arc<str>,
        /// The coordinator's answer.
        source: Failure,
    },
    /// No coordinator could be asked within the wait.
    #[error("failed to acquire lock {name:?}: no connection to a coordinator")]
    Unavailable {
        /// The lock's name.
        name: Arc<str>,
        /// Reason for which the last attempt to connect failed; none if a connection broke or did not answer.
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
    /// Returns the error for a coordinator's refusal.
    pub(crate) fn refused(name: Arc<str>, source: Failure) -> Self {
        let limit = source
            .metadata("limit")
            .and_then(|limit| limit.parse().ok());
        match (source.known_reason(), limit) {
            (Some(Reason::SelfDeadlock), _) => Self::SelfDeadlock { name, source },
            (Some(Reason::UpgradeRefused), _) => Self::UpgradeRefused { name, source },
            (Some(Reason::Deadlock), _) => Self::Deadlock { name, source },
            (Some(Reason::ForceReleased), _) => Self::ForceReleased { name, source },
            (Some(Reason::LimitMismatch), Some(limit)) => Self::LimitMismatch {
                name,
                limit,
                source,
            },
            _ => match source.kind() {
                FailureKind::Unauthenticated => Self::Unauthenticated { name, source },
                FailureKind::PermissionDenied => Self::PermissionDenied { name, source },
                FailureKind::ResourceExhausted => Self::LimitReached {
                    name,
                    retry_after: source.retry_after(),
                    source,
                },
                _ => Self::Refused { name, source },
            },
        }
    }

    /// Returns the error for a request without a session to ask on, or whose connection broke.
    pub(crate) fn unconnected(name: Arc<str>, source: Option<&Arc<ConnectError>>) -> Self {
        match source.map(|source| &**source) {
            Some(ConnectError::Unauthenticated { source, .. }) => {
                let source = source.clone();
                Self::Unauthenticated { name, source }
            }
            Some(ConnectError::PermissionDenied { source, .. }) => {
                let source = source.clone();
                Self::PermissionDenied { name, source }
            }
            _ => Self::Unavailable {
                name,
                source: source.cloned(),
            },
        }
    }

    /// Returns the coordinator's answer, if that is the cause.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let error = client.lock("").await.unwrap_err();
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
            | Self::Deadlock { source, .. }
            | Self::ForceReleased { source, .. } => Some(source),
            _ => None,
        }
    }

    /// Returns whether the same request may succeed later. After a deadlock, it may once the actor has released what it
    /// holds.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Busy { .. } | Self::TimedOut { .. } => true,
            Self::Unavailable { source, .. } => {
                source.as_ref().is_none_or(|source| source.is_retryable())
            }
            _ => self.failure().is_some_and(Failure::is_retryable),
        }
    }
}

fn by(holder: &Option<Box<Holder>>) -> String {
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
