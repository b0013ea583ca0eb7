//! Calls in flight on a connection, of which the cancelled ones count.

use std::time::Instant;

use super::{
    ConnectionHandle,
    cancels::{AT_ONCE, Suspected},
};

/// Call in flight on a connection. If it is dropped before it has [ended](Self::ended), it was cancelled.
#[derive(Debug)]
pub struct UnderWay {
    connection: ConnectionHandle,
    /// Time of its first step.
    since: Option<Instant>,
    ended: bool,
    /// Set if it counts as cancelled at once before its end is known.
    suspected: Option<Suspected>,
}

impl UnderWay {
    /// Notes a call that is about to begin.
    #[must_use]
    pub fn new(connection: ConnectionHandle) -> Self {
        connection.note_call();
        // Under load, the end of a call is known late, and many more calls would be read until then.
        let suspected = connection
            .cancels_too_many()
            .then(|| connection.note_suspected());
        Self {
            connection,
            since: None,
            ended: false,
            suspected,
        }
    }

    /// Notes a step of the call. Returns false for the first step of a suspected call, which must be taken a turn later.
    pub fn step(&mut self) -> bool {
        if self.since.is_some() {
            return true;
        }
        self.since = Some(Instant::now());
        self.suspected.is_none()
    }

    /// Notes that the call was answered.
    pub fn ended(&mut self) {
        self.ended = true;
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.connection.note_call_over();
        let is_at_once = self.since.is_none_or(|since| since.elapsed() < AT_ONCE);
        if let Some(suspected) = self.suspected.take() {
            self.connection.note_known(suspected);
        }
        if is_at_once && !self.ended {
            self.connection.note_cancelled_at_once();
        }
    }
}
