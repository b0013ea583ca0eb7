//! Verdict on a connection's first bytes. HTTP/2 may report no more than that a connection was closed; the verdict tells the
//! caller what its stream found out.

use std::{
    error::Error as StdError,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::error::{Cause, Judged};

/// The cause for which the newest connection of a channel failed before its first byte was accepted. The connection's stream
/// writes it, and the channel reads it when a call fails. Clones share it.
#[derive(Clone, Default, Debug)]
pub(super) struct Verdict(Arc<Mutex<Option<Cause>>>);

impl Verdict {
    /// Forgets the last attempt to connect, since another one begins.
    pub(super) fn begin(&self) {
        *self.cause() = None;
    }

    /// Notes the error that the connection ends with.
    pub(super) fn note(&self, error: &io::Error) {
        *self.cause() = Some(Cause::of(error));
    }

    /// Returns the error of a call, with the verdict where the transport itself does not know why the connection ended.
    pub(super) fn explain(
        &self,
        error: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Box<dyn StdError + Send + Sync> {
        let source = error.into();
        match self.cause().clone() {
            Some(cause) if Cause::of(&*source) == Cause::Broken => {
                Box::new(Judged { cause, source })
            }
            _ => source,
        }
    }

    fn cause(&self) -> MutexGuard<'_, Option<Cause>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests fail by panicking")]
mod tests {
    use super::*;
    use crate::error::{Failure, Mismatch};

    /// Returns HTTP/2's error for a call that the end of its connection cancelled. It does not mention the connection's own
    /// error.
    fn cancelled() -> io::Error {
        io::Error::new(io::ErrorKind::BrokenPipe, "operation was canceled")
    }

    fn told(verdict: &Verdict, error: io::Error) -> Failure {
        let status = tonic::Status::from_error(verdict.explain(error));
        Failure::at("http://locks.example:7421", status)
    }

    #[test]
    fn a_cancelled_call_is_told_with_what_its_connection_found_out() {
        let verdict = Verdict::default();
        let unknown = told(&verdict, cancelled());
        assert!(
            unknown.to_string().contains("broke, as it does"),
            "{unknown}"
        );

        verdict.note(&Mismatch::NoHttp2.error());
        let known = told(&verdict, cancelled());
        assert!(known.is_mismatch() && known.is_transport(), "{known}");
        assert!(known.to_string().contains("gRPC port (7420"), "{known}");

        // What the transport knows itself is true of this very call.
        let refused = told(&verdict, io::ErrorKind::ConnectionRefused.into());
        assert!(
            refused.to_string().contains("connection refused"),
            "{refused}"
        );

        verdict.begin();
        assert!(!told(&verdict, cancelled()).is_mismatch());
    }

    #[test]
    fn the_verdict_keeps_the_code_of_the_call() {
        let verdict = Verdict::default();
        verdict.note(&Mismatch::Tls.error());
        let unavailable = tonic::ConnectError(Box::new(cancelled()));
        let status = tonic::Status::from_error(verdict.explain(unavailable));
        assert_eq!(status.code(), tonic::Code::Unavailable);
        let source = StdError::source(&status).unwrap();
        assert!(source.is::<Judged>());
    }
}
