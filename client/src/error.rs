//! What can go wrong, one type for each thing that one asks for.

use std::{error::Error as StdError, fmt, sync::Arc, time::Duration};

use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::{
    lease::{FencingToken, LostReason},
    proto::v1,
};

/// What was wrong with one field of a request, in the coordinator's words.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct FieldViolation {
    /// The field's path in the request, for example `acquire.name`.
    pub field: String,
    /// What was wrong with it and what is accepted.
    pub description: String,
}

impl fmt::Display for FieldViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.description)
    }
}

/// A request that the coordinator could not serve: what it answered.
///
/// It is made from a failure on the lease stream or from the status of a call; both look the same here.
///
/// ```
/// use leasehold_client::Failure;
///
/// let failure = Failure::from(tonic::Status::unavailable("the store does not answer"));
/// assert!(failure.is_retryable());
/// assert_eq!(failure.code(), tonic::Code::Unavailable);
/// assert!(failure.to_string().contains("the store does not answer"));
/// ```
#[derive(Clone, Debug)]
pub struct Failure(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    code: Code,
    reason: String,
    message: String,
    field_violations: Vec<FieldViolation>,
    status: Option<Status>,
}

impl Failure {
    /// The gRPC status code.
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// The machine-readable reason that the documentation lists, for example `INVALID_FIELD`; empty where none was
    /// given, as by a proxy in between.
    pub fn reason(&self) -> &str {
        &self.0.reason
    }

    /// What happened, to what, and what to do, for people.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// For bad input: which fields, and what was wrong.
    pub fn field_violations(&self) -> &[FieldViolation] {
        &self.0.field_violations
    }

    /// Whether the same request may succeed later.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self.0.code,
            Code::Unavailable | Code::ResourceExhausted | Code::DeadlineExceeded | Code::Aborted
        )
    }

    pub(crate) fn protocol(message: impl Into<String>) -> Self {
        Self(Arc::new(Parts {
            code: Code::Internal,
            reason: String::new(),
            message: message.into(),
            field_violations: Vec::new(),
            status: None,
        }))
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        let reason = status.get_details_error_info().map(|info| info.reason);
        let field_violations = status
            .get_details_bad_request()
            .map(|bad| bad.field_violations)
            .unwrap_or_default()
            .into_iter()
            .map(|violation| FieldViolation {
                field: violation.field,
                description: violation.description,
            })
            .collect();
        Self(Arc::new(Parts {
            code: status.code(),
            reason: reason.unwrap_or_default(),
            message: status.message().to_owned(),
            field_violations,
            status: Some(status),
        }))
    }
}

impl From<v1::SessionFailure> for Failure {
    fn from(failure: v1::SessionFailure) -> Self {
        Self(Arc::new(Parts {
            code: Code::from_i32(failure.code),
            reason: failure.reason,
            message: failure.message,
            field_violations: failure
                .field_violations
                .into_iter()
                .map(|violation| FieldViolation {
                    field: violation.field,
                    description: violation.description,
                })
                .collect(),
            status: None,
        }))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.message.is_empty() {
            f.write_str(self.0.code.description())?;
        } else {
            f.write_str(&self.0.message)?;
        }
        if !self.0.reason.is_empty() {
            write!(f, " ({})", self.0.reason)?;
        }
        // Coordinators say the violation in the message too when there is only one.
        for violation in &self.0.field_violations {
            if !self.0.message.contains(&violation.description) {
                write!(f, "; {violation}")?;
            }
        }
        Ok(())
    }
}

impl StdError for Failure {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.status.as_ref().and_then(StdError::source)
    }
}

/// Why a session could not be opened.
///
/// ```
/// # #[tokio::main] async fn main() {
/// use leasehold_client::{Client, ConnectError};
///
/// let error = Client::connect("http://127.0.0.1:1").await.unwrap_err();
/// assert!(matches!(error, ConnectError::Unreachable { .. }));
/// assert!(error.is_retryable());
/// # }
/// ```
#[derive(thiserror::Error, Debug)]
#[non_exhaustive]
pub enum ConnectError {
    /// The endpoint is not a URL that can be connected to.
    #[error("invalid endpoint {endpoint:?}: expected a URL such as http://127.0.0.1:7420")]
    InvalidEndpoint {
        /// What was given.
        endpoint: String,
        /// What is wrong with it.
        #[source]
        source: Option<tonic::transport::Error>,
    },
    /// No connection could be made.
    #[error("could not reach the coordinator at {endpoint}")]
    Unreachable {
        /// Where it was looked for.
        endpoint: String,
        /// What the transport said.
        source: tonic::transport::Error,
    },
    /// The coordinator did not open a session within the connect time-out.
    #[error("the coordinator at {endpoint} did not answer within {after:?}")]
    TimedOut {
        /// Where it was looked for.
        endpoint: String,
        /// The time-out.
        after: Duration,
    },
    /// The coordinator, or something before it, refused to open a session.
    #[error("the coordinator at {endpoint} refused to open a session")]
    Refused {
        /// Who refused.
        endpoint: String,
        /// Why.
        source: Failure,
    },
    /// The stream ended before the session was open.
    #[error("the coordinator at {endpoint} ended the stream before the session was open")]
    Ended {
        /// Who ended it.
        endpoint: String,
    },
}

impl ConnectError {
    /// Whether the same attempt may succeed later.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::InvalidEndpoint { .. } => false,
            Self::Refused { source, .. } => source.is_retryable(),
            Self::Unreachable { .. } | Self::TimedOut { .. } | Self::Ended { .. } => true,
        }
    }
}

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

/// Why a request about a lock that one holds failed: a release, or a change of its value.
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// use leasehold_client::{HoldError, LostReason};
///
/// let guard = client.lock("printer").acquire().await?;
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
        /// Why.
        reason: LostReason,
    },
    /// The stream ended before the answer came. What the session held ends with it.
    #[error("the stream ended before the coordinator answered about lock {name:?}")]
    Unconfirmed {
        /// The lock's name.
        name: Arc<str>,
    },
    /// The coordinator could not serve the request. A release is repeated in the background until it is served.
    #[error("the coordinator could not serve a request about lock {name:?}")]
    Refused {
        /// The lock's name.
        name: Arc<str>,
        /// What it answered.
        source: Failure,
    },
}

/// A [`HoldError`] before somebody says which lock it is about.
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
    /// Whether the same request may succeed later.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Lost { .. } | Self::Unconfirmed { .. } => false,
            Self::Refused { source, .. } => source.is_retryable(),
        }
    }
}

/// Why work under a lock did not come to its end.
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
        /// Why.
        reason: LostReason,
    },
}

impl WithLockError {
    /// Whether the same work may succeed later. Work that was dropped half-way must be safe to run again.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Acquire(error) => error.is_retryable(),
            Self::Lost { reason, .. } => *reason != LostReason::SessionClosed,
        }
    }
}
