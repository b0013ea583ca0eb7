//! Causes of connections that fail or break, in words that say what to do.

use std::{error::Error as StdError, io};

use rustls::CertificateError;
use tonic::TimeoutExpired;

/// A server other than the expected coordinator, as its first bytes show it.
#[derive(thiserror::Error, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mismatch {
    /// The URL says `https://`, and the server speaks no TLS.
    #[error("what answers there does not speak TLS")]
    NoTls,
    /// The URL says `http://`, and the server speaks TLS.
    #[error("what answers there speaks TLS")]
    Tls,
    #[error("what answers there does not speak HTTP/2")]
    NoHttp2,
}

impl Mismatch {
    const ALL: [Self; 3] = [Self::NoTls, Self::Tls, Self::NoHttp2];

    /// Returns the error with which a connection to it fails. HTTP/2 keeps the kind and the words of such an error, and
    /// nothing else, so that [`Mismatch::of`] knows it by these.
    pub(crate) fn error(self) -> io::Error {
        io::Error::new(io::ErrorKind::Unsupported, self.to_string())
    }

    fn of(error: &io::Error) -> Option<Self> {
        if error.kind() != io::ErrorKind::Unsupported {
            return None;
        }
        let words = error.to_string();
        Self::ALL.into_iter().find(|one| words == one.to_string())
    }
}

/// Failure of a call on a connection whose end the transport can't explain, with the cause that the connection itself found.
#[derive(thiserror::Error, Debug)]
#[error("{source}")]
pub(crate) struct Judged {
    pub(crate) cause: Cause,
    /// Error of the transport.
    pub(crate) source: Box<dyn StdError + Send + Sync>,
}

/// Cause of a connection that failed or broke.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Cause {
    /// Nothing listens there.
    Refused,
    /// The host name has no address.
    NoAddress,
    /// Nothing answered the attempt to connect.
    Silent,
    /// The connection is there, and a call on it was not answered in time.
    TimedOut,
    /// Something else than a coordinator, or a coordinator with another scheme.
    Mismatch(Mismatch),
    /// TLS failed: one side does not trust the other, or they have no version in common.
    Tls(String),
    /// The connection was made, and closed before a byte was answered.
    Closed,
    /// The connection was made, and ended.
    Broken,
    /// Anything else.
    Other(String),
}

impl Cause {
    /// Finds the cause of a transport's error in its sources.
    pub(crate) fn of(error: &(dyn StdError + 'static)) -> Self {
        let mut is_connecting = false;
        let mut last = error;
        let mut cause = Some(error);
        while let Some(error) = cause {
            is_connecting |= error.is::<tonic::ConnectError>();
            if let Some(judged) = error.downcast_ref::<Judged>() {
                return judged.cause.clone();
            }
            if error.is::<TimeoutExpired>() {
                return Self::TimedOut;
            }
            if let Some(error) = error.downcast_ref::<rustls::Error>() {
                return Self::Tls(of_tls(error));
            }
            if let Some(error) = error.downcast_ref::<io::Error>()
                && let Some(known) = Self::of_io(error)
            {
                return known;
            }
            last = error;
            cause = error.source();
        }
        if is_connecting {
            Self::Other(last.to_string())
        } else {
            Self::Broken
        }
    }

    fn of_io(error: &io::Error) -> Option<Self> {
        use io::ErrorKind;
        if let Some(mismatch) = Mismatch::of(error) {
            return Some(Self::Mismatch(mismatch));
        }
        if let Some(error) = error
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<rustls::Error>())
        {
            return Some(Self::Tls(of_tls(error)));
        }
        Some(match error.kind() {
            ErrorKind::UnexpectedEof if error.to_string() == CLOSED => Self::Closed,
            ErrorKind::ConnectionRefused => Self::Refused,
            ErrorKind::TimedOut => Self::Silent,
            // Once a connection is in use, HTTP/2 keeps nothing of an error of TLS but its kind and its words. Nothing else
            // that a connection is made of ends it with this kind.
            ErrorKind::InvalidData => Self::Tls(error.to_string()),
            ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::BrokenPipe
            | ErrorKind::NotConnected
            | ErrorKind::UnexpectedEof => Self::Broken,
            // The look-up of a name has no kind of its own.
            _ if error.to_string().starts_with(LOOKUP_FAILED) => Self::NoAddress,
            _ => return None,
        })
    }

    /// Returns whether TLS is the cause. A server that speaks no TLS at all is another one.
    pub(crate) fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// Explains what happened with the coordinator at this endpoint, and what to do.
    pub(crate) fn explain(&self, endpoint: &str) -> String {
        let who = match endpoint {
            "" => "the coordinator".to_owned(),
            endpoint => format!("the coordinator at {endpoint}"),
        };
        let unreachable = |why: &str| format!("could not reach {who}: {why}");
        match self {
            Self::Refused => unreachable(
                "connection refused; check the address and the port, and that a coordinator runs there",
            ),
            Self::NoAddress => unreachable("its host name has no address; check the name"),
            Self::Silent => unreachable(
                "nothing answered in time; check the address, the port, and the network in between",
            ),
            Self::TimedOut => format!("{who} did not answer in time"),
            Self::Mismatch(Mismatch::NoTls) => {
                let plain = with_scheme(endpoint, "http");
                unreachable(&format!(
                    "{}; use {plain}, or have the coordinator serve TLS",
                    Mismatch::NoTls
                ))
            }
            Self::Mismatch(Mismatch::Tls) => {
                let encrypted = with_scheme(endpoint, "https");
                unreachable(&format!("{}; use {encrypted}", Mismatch::Tls))
            }
            Self::Mismatch(Mismatch::NoHttp2) => unreachable(&format!(
                "{}; check that the port is a coordinator's gRPC port (7420 by default)",
                Mismatch::NoHttp2
            )),
            Self::Closed => unreachable(&format!(
                "{CLOSED}; check that the port is a coordinator's gRPC port (7420 by default), and that a coordinator \
                 is behind it"
            )),
            Self::Tls(why) => {
                format!("could not make an encrypted connection to {who}: {why}")
            }
            Self::Broken => {
                format!(
                    "the connection to {who} broke, as it does when a coordinator stops or restarts"
                )
            }
            Self::Other(why) => unreachable(why),
        }
    }
}

/// Message about a connection that was closed before a byte was answered.
const CLOSED: &str = "what answers there closed the connection without an answer";

/// Returns the error of a connection that is closed before a byte was answered. [`Cause::of`] knows it by its kind and words.
pub(crate) fn closed_unanswered() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, CLOSED)
}

/// Returns whether this is that error.
pub(crate) fn is_closed_unanswered(error: &io::Error) -> bool {
    Cause::of_io(error) == Some(Cause::Closed)
}

const LOOKUP_FAILED: &str = "failed to lookup address information";

/// Returns the endpoint with another scheme, or a hint if the endpoint is not known.
fn with_scheme(endpoint: &str, scheme: &str) -> String {
    let rest = endpoint.split_once("://").map_or("…", |(_, rest)| rest);
    format!("{scheme}://{rest}")
}

/// Returns what rustls says, and what to do about it where that is known.
fn of_tls(error: &rustls::Error) -> String {
    let rustls::Error::InvalidCertificate(certificate) = error else {
        return error.to_string();
    };
    match certificate {
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            "the coordinator serves with a CA's certificate (CaUsedAsEndEntity), which no client accepts as a \
             server's; give the coordinator a certificate that this CA has signed, or a self-signed one that is \
             not a CA (basicConstraints CA:FALSE)"
                .to_owned()
        }
        CertificateError::UnknownIssuer => format!(
            "{error}; trust the CA that has signed the coordinator's certificate: name the file with that CA's \
             certificate"
        ),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn io(kind: io::ErrorKind) -> io::Error {
        kind.into()
    }

    #[test]
    fn each_cause_says_where_and_what_to_do() {
        let at = "https://locks.example:7420";
        let ca = rustls::OtherError(std::sync::Arc::new(io::Error::other("CaUsedAsEndEntity")));
        let ca = rustls::Error::InvalidCertificate(CertificateError::Other(ca));
        let issuer = rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let invalid = |why| io::Error::new(io::ErrorKind::InvalidData, why);
        let refused = io(io::ErrorKind::ConnectionRefused);
        let late = io(io::ErrorKind::TimedOut);
        let broken = io(io::ErrorKind::BrokenPipe);
        let nameless = io::Error::other("failed to lookup address information: no such name");
        let plain = "use http://locks.example:7420";
        let encrypted = "use https://locks.example:7420";
        for (error, parts) in [
            (refused, ["connection refused", "the address and the port"]),
            (late, ["nothing answered in time", "check the address"]),
            (broken, ["broke", "stops or restarts"]),
            (nameless, ["no address", "check the name"]),
            (closed_unanswered(), ["without an answer", "that the port"]),
            (Mismatch::NoTls.error(), ["does not speak TLS", plain]),
            (Mismatch::Tls.error(), ["speaks TLS", encrypted]),
            (Mismatch::NoHttp2.error(), ["speak HTTP/2", "gRPC port"]),
            (invalid(ca), ["CaUsedAsEndEntity", "CA:FALSE"]),
            (invalid(issuer), ["UnknownIssuer", "trust the CA"]),
        ] {
            let words = Cause::of(&error).explain(at);
            assert!(words.contains(at), "{words}");
            for part in parts {
                assert!(words.contains(part), "{words}");
            }
        }
    }

    #[test]
    fn no_tls_at_all_is_not_a_fault_of_tls() {
        for mismatch in Mismatch::ALL {
            assert!(!Cause::of(&mismatch.error()).is_tls());
        }
        assert!(Cause::of(&io(io::ErrorKind::InvalidData)).is_tls());
    }
}
