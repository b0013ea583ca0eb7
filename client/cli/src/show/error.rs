//! Errors as JSON, with the fields by which a program decides.

use std::{collections::BTreeMap, error::Error as StdError, io::Write};

use leasehold_client::{AcquireError, ConnectError, Endpoints, Failure, FailureKind};
use leasehold_proto::{Reason, Retry};
use serde::Serialize;

use super::json;
use crate::exit::{self, Mistake, NotYet};

/// Error with the code and reason that docs/errors.md lists.
#[derive(Serialize, Debug)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Error {
    /// The name of a gRPC code; `UNAVAILABLE` if no coordinator answered.
    code: &'static str,
    /// `None` if no coordinator answered, or it gave none.
    reason: Option<String>,
    message: String,
    /// Whether a retry may succeed.
    retry: &'static str,
    /// Time after which to try again, if the coordinator said so.
    retry_after: Option<String>,
    /// The coordinator that was asked, or all candidates; `None` if the error is not a coordinator's.
    endpoint: Option<String>,
}

impl Error {
    /// Describes an error of a command.
    pub(crate) fn new(error: &anyhow::Error) -> Self {
        let message = exit::explained(error);
        if let Some(failure) = exit::failure_in(error) {
            return Self {
                message,
                ..Self::from(failure)
            };
        }
        let (code, retry) = match exit::connect_error(error) {
            Some(ConnectError::InvalidEndpoint { .. } | ConnectError::Credentials(_)) => {
                (FailureKind::InvalidArgument, Retry::No)
            }
            Some(ConnectError::TimedOut { .. }) => (FailureKind::DeadlineExceeded, Retry::Yes),
            Some(error) if error.is_retryable() => (FailureKind::Unavailable, Retry::Yes),
            Some(_) => (FailureKind::Unavailable, Retry::No),
            None if error.is::<AcquireError>() => (FailureKind::Unavailable, Retry::Yes),
            None if error.is::<Mistake>() => (FailureKind::InvalidArgument, Retry::No),
            None if error.is::<NotYet>() => (FailureKind::DeadlineExceeded, Retry::Yes),
            None => (FailureKind::Unknown, Retry::No),
        };
        Self {
            code: code.as_str(),
            reason: None,
            message,
            retry: retry.as_str(),
            retry_after: None,
            endpoint: None,
        }
    }

    /// Describes an error of a command that asked the coordinators at these endpoints.
    pub(crate) fn at(endpoints: &Endpoints, error: &anyhow::Error) -> Self {
        let mut document = Self::new(error);
        if document.endpoint.is_none() && exit::is_of_coordinator(error) {
            document.endpoint = Some(endpoints.to_string());
        }
        document
    }

    /// Describes a mistake on the command line.
    pub(crate) fn of_command_line(error: &clap::Error) -> Self {
        let words = error.render().to_string();
        // The rest is for people: the usage, and a hint to the help.
        let first = words.split("\n\n").next().unwrap_or_default();
        let first = first.trim_start_matches("error: ").split_whitespace();
        let message = first.collect::<Vec<_>>().join(" ");
        Self::new(&Mistake(message).into())
    }

    /// Prints it in a line on standard error. A reader that has gone is not an error.
    pub(crate) fn print(&self) {
        let document = serde_json::to_string(&BTreeMap::from([("error", self)]));
        writeln!(std::io::stderr().lock(), "{}", document.unwrap_or_default()).ok();
    }
}

impl From<&Failure> for Error {
    fn from(failure: &Failure) -> Self {
        let reason = Some(failure.reason()).filter(|reason| !reason.is_empty());
        let code = match was_answered(failure) {
            true => failure.kind(),
            false => FailureKind::Unavailable,
        };
        Self {
            code: code.as_str(),
            reason: reason.map(str::to_owned),
            message: failure.to_string(),
            retry: retry(failure).as_str(),
            retry_after: failure.retry_after().map(json::duration),
            endpoint: failure.endpoint().map(str::to_owned),
        }
    }
}

/// Returns whether a coordinator, or something before it, answered at all.
fn was_answered(failure: &Failure) -> bool {
    failure.source().is_none() && failure.kind() != FailureKind::Unknown
}

/// Returns the entry of the table in docs/errors.md.
fn retry(failure: &Failure) -> Retry {
    if !failure.reason().is_empty() {
        return Reason::parse(failure.reason()).map_or(Retry::No, Reason::retry);
    }
    match failure.kind() {
        _ if !was_answered(failure) && failure.is_retryable() => Retry::Yes,
        _ if !was_answered(failure) => Retry::No,
        // By the client itself: nothing answered in time.
        FailureKind::DeadlineExceeded => Retry::Yes,
        FailureKind::Unavailable => Retry::Elsewhere,
        _ => Retry::No,
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests fail by panicking")]
mod tests {
    use std::time::Duration;

    use super::*;

    const PAGE: &str = include_str!("../../../../docs/errors.md");

    /// The kinds that the documentation names.
    const KINDS: [FailureKind; 9] = [
        FailureKind::InvalidArgument,
        FailureKind::DeadlineExceeded,
        FailureKind::PermissionDenied,
        FailureKind::ResourceExhausted,
        FailureKind::FailedPrecondition,
        FailureKind::Aborted,
        FailureKind::Internal,
        FailureKind::Unavailable,
        FailureKind::Unauthenticated,
    ];

    /// Returns the rows of the table of reasons: reason, code and retry.
    fn documented() -> Vec<[&'static str; 3]> {
        let table = PAGE.split("| reason | code | retry |").nth(1).unwrap();
        let rows = table.lines().skip(2).map_while(|line| {
            let mut cells = line
                .split('|')
                .skip(1)
                .map(|cell| cell.trim().trim_matches('`'));
            Some([cells.next()?, cells.next()?, cells.next()?])
        });
        rows.collect()
    }

    #[test]
    fn an_error_tells_what_the_documentation_says_of_its_reason() {
        let rows = documented();
        assert!(rows.len() > 30, "{rows:?}");
        for [reason, code, retry] in rows {
            let kind = KINDS.into_iter().find(|kind| kind.as_str() == code);
            let failure = Failure::new(kind.unwrap(), reason, "");
            let document = serde_json::to_value(Error::from(&failure)).unwrap();
            let told = ["reason", "code", "retry"].map(|field| document[field].as_str().unwrap());
            assert_eq!(told, [reason, code, retry]);
        }
    }

    #[test]
    fn every_field_is_there_whatever_went_wrong() {
        let error = anyhow::Error::new(Mistake("use --force".to_owned()));
        let document = serde_json::to_value(Error::new(&error)).unwrap();
        let expected = serde_json::json!({
            "code": "INVALID_ARGUMENT", "reason": null, "message": "use --force", "retry": "no", "retryAfter": null,
            "endpoint": null,
        });
        assert_eq!(document, expected);
        let limited = Failure::new(FailureKind::ResourceExhausted, "RATE_LIMITED", "")
            .with_retry_after(Duration::from_millis(1_500));
        let error = anyhow::Error::new(limited).context("failed to list the locks");
        let endpoints = Endpoints::from("locks.example");
        let document = serde_json::to_value(Error::at(&endpoints, &error)).unwrap();
        assert_eq!(document["retryAfter"], "1.500s");
        assert_eq!(document["endpoint"], "http://locks.example:7420");
        assert!(
            document["message"]
                .as_str()
                .unwrap()
                .starts_with("failed to list the locks: ")
        );
    }
}
