//! Errors of opening a session.

use std::{error::Error as StdError, time::Duration};

use super::Failure;

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
    /// No connection could be made, or it broke before anybody answered on it: there may be a balancer, but no
    /// coordinator behind it.
    #[error("could not reach the coordinator at {endpoint}")]
    Unreachable {
        /// Where it was looked for.
        endpoint: String,
        /// What the transport said.
        source: Box<dyn StdError + Send + Sync>,
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
    /// The stream broke before the session was open.
    pub(crate) fn broke(endpoint: String, source: Failure) -> Self {
        if source.is_transport() {
            let source = source.into();
            Self::Unreachable { endpoint, source }
        } else {
            Self::Refused { endpoint, source }
        }
    }

    /// Whether the same attempt may succeed later.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::InvalidEndpoint { .. } => false,
            Self::Refused { source, .. } => source.is_retryable(),
            Self::Unreachable { .. } | Self::TimedOut { .. } | Self::Ended { .. } => true,
        }
    }
}
