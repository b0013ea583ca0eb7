//! Errors of opening a session.

use std::{error::Error as StdError, time::Duration};

use super::{Cause, CredentialsError, Failure, FailureKind, Rounded};

/// Error of opening a session.
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
    #[error(
        "invalid endpoint {endpoint:?}: expected a URL such as https://locks.example:7420, or HOST:PORT for an unencrypted connection"
    )]
    InvalidEndpoint {
        /// The endpoint as given.
        endpoint: String,
        /// The reason, if the URL is malformed.
        #[source]
        source: Option<Box<dyn StdError + Send + Sync>>,
    },
    /// The client's credentials, or the CAs that it is to trust, can't be used.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// The connection could not be encrypted: one side does not trust the other's certificate, or the two have no version of
    /// TLS in common.
    #[error("{}", Cause::of(&**source).explain(endpoint))]
    Tls {
        /// The endpoint.
        endpoint: String,
        /// The cause.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The server at the endpoint is no coordinator, or disagrees with the URL about TLS: it speaks TLS though the URL says
    /// `http://`, or plain text though it says `https://`.
    #[error("{}", Cause::of(&**source).explain(endpoint))]
    Mismatch {
        /// The endpoint.
        endpoint: String,
        /// The cause.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// No connection could be made, or it broke before a coordinator answered on it: perhaps a balancer has no coordinator
    /// behind it.
    #[error("{}", Cause::of(&**source).explain(endpoint))]
    Unreachable {
        /// The endpoint.
        endpoint: String,
        /// The transport's error.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The coordinator did not open a session within the connect time-out.
    #[error("the coordinator at {endpoint} did not answer within {}", Rounded(*after))]
    TimedOut {
        /// The endpoint.
        endpoint: String,
        /// The time-out.
        after: Duration,
    },
    /// The coordinator does not know the client: it showed no certificate and no token, or none that is valid.
    #[error("the coordinator at {endpoint} does not know who asks")]
    Unauthenticated {
        /// The coordinator's endpoint.
        endpoint: String,
        /// The coordinator's answer.
        source: Failure,
    },
    /// The coordinator knows the client and does not allow the request.
    #[error("the coordinator at {endpoint} does not allow it")]
    PermissionDenied {
        /// The coordinator's endpoint.
        endpoint: String,
        /// The coordinator's answer.
        source: Failure,
    },
    /// The coordinator has no room for another session at present. A session that reconnects tries again after the pause that
    /// it asks for.
    #[error("the coordinator at {endpoint} is at a limit")]
    LimitReached {
        /// The coordinator's endpoint.
        endpoint: String,
        /// The pause after which to try again, if the coordinator named one.
        retry_after: Option<Duration>,
        /// The coordinator's answer.
        source: Failure,
    },
    /// The coordinator, or something before it, refused to open a session for another reason.
    #[error("the coordinator at {endpoint} refused to open a session")]
    Refused {
        /// The coordinator's endpoint.
        endpoint: String,
        /// The reason.
        source: Failure,
    },
    /// The stream ended before the session was open.
    #[error("the coordinator at {endpoint} ended the stream before the session was open")]
    Ended {
        /// The coordinator's endpoint.
        endpoint: String,
    },
}

impl ConnectError {
    /// Returns the error of a connection that could not be made.
    pub(crate) fn unreachable(endpoint: String, source: Box<dyn StdError + Send + Sync>) -> Self {
        match Cause::of(&*source) {
            Cause::Tls(_) => Self::Tls { endpoint, source },
            Cause::Mismatch(_) => Self::Mismatch { endpoint, source },
            _ => Self::Unreachable { endpoint, source },
        }
    }

    /// Returns the error of a stream that ended, with a failure or without one, before the session was open.
    pub(crate) fn broke(endpoint: String, source: Option<Failure>) -> Self {
        match source {
            None => Self::Ended { endpoint },
            Some(source) if source.is_transport() => Self::unreachable(endpoint, source.into()),
            Some(source) => Self::refused(endpoint, source),
        }
    }

    /// Returns the error for a refusal.
    pub(crate) fn refused(endpoint: String, source: Failure) -> Self {
        match source.kind() {
            FailureKind::Unauthenticated => Self::Unauthenticated { endpoint, source },
            FailureKind::PermissionDenied => Self::PermissionDenied { endpoint, source },
            FailureKind::ResourceExhausted => Self::LimitReached {
                endpoint,
                retry_after: source.retry_after(),
                source,
            },
            _ => Self::Refused { endpoint, source },
        }
    }

    /// Returns the coordinator's answer, if that is the cause.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// # let endpoint = client.endpoint().to_owned();
    /// use leasehold_client::Client;
    ///
    /// let client = Client::builder().client_name("\n");
    /// let error = client.connect(endpoint).await.unwrap_err();
    /// assert_eq!(error.failure().unwrap().reason(), "INVALID_FIELD");
    /// # Ok(()) });
    /// ```
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Unauthenticated { source, .. }
            | Self::PermissionDenied { source, .. }
            | Self::LimitReached { source, .. }
            | Self::Refused { source, .. } => Some(source),
            _ => None,
        }
    }

    /// Returns whether the same attempt may succeed later.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::TimedOut { .. } | Self::Ended { .. } => true,
            _ => self.failure().is_some_and(Failure::is_retryable),
        }
    }
}
