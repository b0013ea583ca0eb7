//! Errors of the credentials that a client shows, and of the certificates that it trusts.

use std::{io, path::PathBuf};

/// Error of certificates or a bearer token. It never shows them.
///
/// ```
/// # #[tokio::main] async fn main() {
/// use leasehold_client::{Client, ConnectError, CredentialsError};
///
/// let client = Client::builder().bearer_token_file("/nonexistent/token");
/// let error = client.connect("http://127.0.0.1:7420").await.unwrap_err();
/// assert!(matches!(error, ConnectError::Credentials(CredentialsError::Unreadable { .. })));
/// assert_eq!(error.to_string(), "could not read /nonexistent/token");
/// # }
/// ```
#[derive(thiserror::Error, Debug)]
#[non_exhaustive]
pub enum CredentialsError {
    /// A file can't be read.
    #[error("could not read {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The contents of a file or a setting are invalid.
    #[error("{what} can't be used: {why}")]
    Invalid {
        /// The credential, and the file that it is from.
        what: String,
        /// The fault, or the expected form.
        why: String,
    },
    /// A bearer token would go unencrypted to another machine, where others on the network could read it; see
    /// [`ClientBuilder::allow_plaintext_credentials`](crate::ClientBuilder::allow_plaintext_credentials).
    #[error(
        "a bearer token is not sent unencrypted to another machine: {endpoint} has to be https://"
    )]
    Plaintext {
        /// The endpoint that it would have been sent to.
        endpoint: String,
    },
}

impl CredentialsError {
    pub(crate) fn invalid(what: impl Into<String>, why: impl ToString) -> Self {
        Self::Invalid {
            what: what.into(),
            why: why.to_string(),
        }
    }
}
