//! Failure of a request: the coordinator's answer, or the transport's error.

use std::{collections::HashMap, error::Error as StdError, fmt, sync::Arc, time::Duration};

use leasehold_proto::{Reason, Retry};
use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::{cause::Cause, kind::FailureKind, rounded::Rounded};
use crate::proto::v1;

/// Fault of one field of a request, in the coordinator's words.
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// use leasehold_client::AcquireError;
///
/// let error = client.lock("").await.unwrap_err();
/// let AcquireError::Refused { source, .. } = error else { unreachable!() };
/// assert_eq!(source.reason(), "INVALID_FIELD");
/// assert_eq!(source.field_violations()[0].field, "acquire.name");
/// # Ok(()) });
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct FieldViolation {
    /// The field's path in the request, for example `acquire.name`.
    pub field: String,
    /// The fault, and the values that the coordinator accepts.
    pub description: String,
}

impl FieldViolation {
    fn new(field: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            description: description.into(),
        }
    }
}

impl fmt::Display for FieldViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.description)
    }
}

/// A request that the coordinator could not serve, with its answer; or a call that reached no coordinator or whose
/// connection broke, with the transport's error.
///
/// A failure on the lease stream and the failure of a single call look the same. Cheap to clone.
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// use leasehold_client::FailureKind;
///
/// let failure = client.admin().get_lock("").await.unwrap_err();
/// assert_eq!(failure.kind(), FailureKind::InvalidArgument);
/// assert_eq!(failure.reason(), "INVALID_FIELD");
/// assert!(!failure.is_retryable());
/// # Ok(()) });
/// ```
#[derive(Clone, Debug)]
pub struct Failure(Arc<Parts>);

#[derive(Clone, Debug)]
struct Parts {
    kind: FailureKind,
    reason: String,
    message: String,
    field_violations: Vec<FieldViolation>,
    metadata: HashMap<String, String>,
    retry_after: Option<Duration>,
    status: Option<Status>,
    /// Endpoint of the coordinator that was asked; empty if unknown.
    endpoint: String,
}

impl Failure {
    /// Makes a failure as a coordinator would answer it, for tests of programs that handle failures. `reason` is one of
    /// those that the documentation lists, or empty.
    ///
    /// ```
    /// use std::time::Duration;
    /// use leasehold_client::{Failure, FailureKind};
    ///
    /// let limited = Failure::new(FailureKind::ResourceExhausted, "RATE_LIMITED", "too many requests")
    ///     .with_retry_after(Duration::from_secs(2));
    /// assert!(limited.is_retryable());
    /// assert_eq!(limited.retry_after(), Some(Duration::from_secs(2)));
    /// ```
    pub fn new(kind: FailureKind, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self(Arc::new(Parts {
            kind,
            reason: reason.into(),
            message: message.into(),
            field_violations: Vec::new(),
            metadata: HashMap::new(),
            retry_after: None,
            status: None,
            endpoint: String::new(),
        }))
    }

    /// Sets the pause after which to ask again; see [`Failure::new`].
    #[must_use]
    pub fn with_retry_after(mut self, after: Duration) -> Self {
        self.parts().retry_after = Some(after);
        self
    }

    fn parts(&mut self) -> &mut Parts {
        Arc::make_mut(&mut self.0)
    }

    /// Returns the failure of a call to the coordinator at this endpoint.
    pub(crate) fn at(endpoint: &str, status: Status) -> Self {
        let mut failure = Self::from_status(status);
        endpoint.clone_into(&mut failure.parts().endpoint);
        failure
    }

    /// Returns the URL of the coordinator that was asked; `None` if that is not known, as for an answer on a session.
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use leasehold_client::Admin;
    ///
    /// let failure = Admin::connect("127.0.0.1:1")?.get_lock("a").await.unwrap_err();
    /// assert_eq!(failure.endpoint(), Some("http://127.0.0.1:1"));
    /// assert!(failure.to_string().contains("connection refused"));
    /// # Ok(()) }
    /// ```
    pub fn endpoint(&self) -> Option<&str> {
        Some(&*self.0.endpoint).filter(|endpoint| !endpoint.is_empty())
    }

    /// Returns the kind of the failure: the gRPC status code.
    pub fn kind(&self) -> FailureKind {
        self.0.kind
    }

    /// Returns the machine-readable reason that the documentation lists, for example `INVALID_FIELD`; empty if there is none,
    /// as in an answer of a proxy.
    pub fn reason(&self) -> &str {
        &self.0.reason
    }

    /// Returns the reason; `None` if there is none, or one that this version does not know.
    pub(crate) fn known_reason(&self) -> Option<Reason> {
        Reason::parse(&self.0.reason)
    }

    /// Returns the description for people: what happened, to what, and what to do.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the invalid fields of the request, and the fault of each.
    pub fn field_violations(&self) -> &[FieldViolation] {
        &self.0.field_violations
    }

    /// Returns a detail of the reason, as the documentation lists it: for `LIMIT_MISMATCH` the `limit` in force.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let _held = client.semaphore("downloads", 3).permits(1).await?;
    /// let error = client.semaphore("downloads", 5).permits(1).await.unwrap_err();
    /// let failure = error.failure().unwrap();
    /// assert_eq!(failure.reason(), "LIMIT_MISMATCH");
    /// assert_eq!(failure.metadata("limit"), Some("3"));
    /// # Ok(()) });
    /// ```
    pub fn metadata(&self, key: &str) -> Option<&str> {
        self.0.metadata.get(key).map(String::as_str)
    }

    /// Returns the pause after which to ask again, if the coordinator named one, as it does when one of its limits is
    /// reached.
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// Returns whether the connection could not be encrypted: one side does not trust the other's certificate, or the two have no
    /// version of TLS in common.
    ///
    /// ```
    /// use leasehold_client::{Failure, FailureKind};
    ///
    /// let failure = Failure::new(FailureKind::Unauthenticated, "", "who are you?");
    /// assert!(!failure.is_tls());
    /// ```
    pub fn is_tls(&self) -> bool {
        self.cause().is_some_and(|cause| cause.is_tls())
    }

    /// Returns whether the server at the endpoint is no coordinator, or disagrees with the URL about TLS: it speaks TLS where the
    /// URL says `http://`, or plain text where it says `https://`.
    ///
    /// ```
    /// use leasehold_client::{Failure, FailureKind};
    ///
    /// let failure = Failure::new(FailureKind::Unavailable, "STORE_UNAVAILABLE", "the store is away");
    /// assert!(!failure.is_mismatch());
    /// ```
    pub fn is_mismatch(&self) -> bool {
        matches!(self.cause(), Some(Cause::Mismatch(_)))
    }

    /// Returns why the connection failed, if it did and the cause is known.
    fn cause(&self) -> Option<Cause> {
        let status = self.0.status.as_ref();
        status.and_then(StdError::source).map(Cause::of)
    }

    /// Returns whether the same request may succeed later. So it may whenever the connection failed, whatever the code, unless
    /// [TLS](Failure::is_tls) or a [mismatch](Failure::is_mismatch) is why.
    pub fn is_retryable(&self) -> bool {
        if self.is_transport() {
            return !self.is_tls() && !self.is_mismatch();
        }
        match self.known_reason() {
            // After a deadlock, the same request succeeds once the actor has released what it holds.
            _ if self.0.kind == FailureKind::Aborted => true,
            Some(reason) => reason.retry() != Retry::No,
            None => matches!(
                self.0.kind,
                FailureKind::Unavailable
                    | FailureKind::ResourceExhausted
                    | FailureKind::DeadlineExceeded
            ),
        }
    }

    /// Returns whether the connection failed, rather than that a coordinator answered.
    pub(crate) fn is_transport(&self) -> bool {
        self.0.status.as_ref().is_some_and(|status| {
            // What is made of a transport's error keeps it as the source; what was answered has none. Of a stream that
            // a proxy cuts short there is only this code, which no coordinator answers.
            status.source().is_some() || status.code() == Code::Unknown
        })
    }

    /// Returns whether a coordinator answered that it does not know the client.
    pub(crate) fn is_unauthenticated(&self) -> bool {
        self.0.kind == FailureKind::Unauthenticated && !self.is_transport()
    }

    /// Returns whether a coordinator answered that it is going away or has stopped.
    pub(crate) fn is_draining(&self) -> bool {
        self.known_reason() == Some(Reason::Draining) && !self.is_transport()
    }

    /// Returns whether there was no connection that the request could have been sent on.
    pub(crate) fn is_unsent(&self) -> bool {
        let mut cause = self.source();
        while let Some(error) = cause {
            if error.is::<tonic::ConnectError>() {
                return true;
            }
            cause = error.source();
        }
        false
    }

    /// Returns the failure of a call whose connection could not be made.
    pub(crate) fn unconnected(
        endpoint: &str,
        error: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        let error = tonic::ConnectError(error.into());
        Self::at(endpoint, Status::from_error(error.into()))
    }

    /// Returns the failure of a call that the coordinator did not answer in time.
    pub(crate) fn unanswered(endpoint: &str, within: Duration) -> Self {
        let within = Rounded(within);
        let what = format!("the coordinator at {endpoint} did not answer within {within}");
        Self::at(endpoint, Status::deadline_exceeded(what))
    }

    /// Returns the failure for a coordinator that broke the protocol.
    /// Returns the failure of a wait that an operator ended, as the coordinator reports it to the stream that has it.
    pub(crate) fn force_released() -> Self {
        Self::new(
            FailureKind::Aborted,
            Reason::ForceReleased.as_str(),
            "an operator ended the wait",
        )
    }

    pub(crate) fn protocol(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Internal, "", message)
    }

    /// Returns whether the coordinator ended a stream because of a request on it, which would end the next stream, too.
    pub(crate) fn is_about_a_request(&self) -> bool {
        self.kind() == FailureKind::InvalidArgument
            || self.known_reason() == Some(Reason::MessageTooLarge)
    }

    /// Returns what a coordinator would answer to a mistake that it can't see.
    pub(crate) fn invalid_field(field: &str, description: &str) -> Self {
        let message = format!("{field} {description}");
        let reason = Reason::InvalidField.as_str();
        let mut failure = Self::new(FailureKind::InvalidArgument, reason, message);
        let violation = FieldViolation::new(field, description);
        failure.parts().field_violations.push(violation);
        failure
    }

    /// Returns the failure of a call that ended with this status.
    pub(crate) fn from_status(status: Status) -> Self {
        let kind = FailureKind::from_code(status.code());
        let mut failure = Self::new(kind, "", status.message());
        let parts = failure.parts();
        if let Some(info) = status.get_details_error_info() {
            parts.reason = info.reason;
            parts.metadata = info.metadata;
        }
        let violations = status.get_details_bad_request().into_iter();
        let violations = violations.flat_map(|bad| bad.field_violations);
        parts.field_violations = violations
            .map(|violation| FieldViolation::new(violation.field, violation.description))
            .collect();
        let retry = status.get_details_retry_info();
        parts.retry_after = retry.and_then(|info| info.retry_delay);
        parts.status = Some(status);
        failure
    }

    /// Returns the failure of a request on a lease stream.
    pub(crate) fn from_session(answer: v1::SessionFailure) -> Self {
        let kind = FailureKind::from_code(Code::from_i32(answer.code));
        let mut failure = Self::new(kind, answer.reason, answer.message);
        let parts = failure.parts();
        parts.metadata = answer.metadata;
        let violations = answer.field_violations.into_iter();
        parts.field_violations = violations
            .map(|violation| FieldViolation::new(violation.field, violation.description))
            .collect();
        let retry_after = answer.retry_after;
        parts.retry_after = retry_after.and_then(|after| Duration::try_from(after).ok());
        failure
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(cause) = self.cause() {
            return f.write_str(&cause.explain(&self.0.endpoint));
        }
        if self.is_transport() && !self.0.endpoint.is_empty() {
            let endpoint = &self.0.endpoint;
            write!(f, "the connection to the coordinator at {endpoint} broke: ")?;
        }
        f.write_str(match &*self.0.message {
            "" => self.0.kind.as_str(),
            message => message,
        })?;
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

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_broken_connection_may_be_mended_whatever_its_code() {
        let reset = || io::Error::from(io::ErrorKind::ConnectionReset);
        for code in [Code::Cancelled, Code::Internal, Code::PermissionDenied] {
            let mut broken = Status::new(code, "the connection broke");
            broken.set_source(Arc::new(reset()));
            let broken = Failure::from_status(broken);
            assert!(broken.is_transport() && broken.is_retryable(), "{broken:?}");
            assert_eq!(broken.kind(), FailureKind::from_code(code));
            let (words, begins) = (
                broken.to_string(),
                "the connection to the coordinator broke",
            );
            assert!(words.starts_with(begins), "{words}");

            let answered = Failure::from_status(Status::new(code, "no"));
            assert!(!answered.is_transport(), "{answered:?}");
            assert!(!answered.is_retryable(), "{answered:?}");
        }
        let without_end = Failure::from_status(Status::unknown("no status at the stream's end"));
        assert!(without_end.is_transport() && without_end.is_retryable());
        let mut distrusted = Status::unknown("transport error");
        let alert = "received fatal alert: CertificateRequired";
        distrusted.set_source(Arc::new(io::Error::new(io::ErrorKind::InvalidData, alert)));
        let distrusted = Failure::from_status(distrusted);
        assert!(distrusted.is_tls() && distrusted.is_transport() && !distrusted.is_retryable());
        let limited = |reason: &str| {
            Failure::from_session(v1::SessionFailure {
                code: Code::ResourceExhausted.into(),
                reason: reason.to_owned(),
                retry_after: Some(prost_types::Duration {
                    seconds: 2,
                    nanos: 0,
                }),
                ..Default::default()
            })
        };
        assert!(limited("RATE_LIMITED").is_retryable());
        let after = limited("RATE_LIMITED").retry_after();
        assert_eq!(after, Some(Duration::from_secs(2)));
        assert!(!limited("TOO_MANY_NAMES").is_retryable());
        let away = Failure::from_status(Status::unavailable("the store is away"));
        assert!(!away.is_transport() && away.is_retryable());
        assert!(!Failure::protocol("nonsense").is_retryable());
    }
}
