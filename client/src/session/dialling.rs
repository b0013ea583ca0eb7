//! Dialling of the next connection: one round over all coordinators after the other.

use std::{sync::Arc, time::Duration};

use super::{
    connection::Connection,
    driver::{Driver, MOST_OVERDUE, Status},
    fate::Fate,
    link::{Event, Link},
    route::Found,
};
use crate::{
    clock::Moment,
    error::{ConnectError, Failure},
};

/// Interval of looks at the files of credentials.
const LOOK: Duration = Duration::from_secs(1);

/// Time within which all clients that see a file change move their sessions: many have the same file.
const SPREAD: Duration = Duration::from_secs(5);

/// Returns the longest pause between two rounds while what a stopped coordinator left can still be resumed: half a second
/// at most, partly at random, since all of its clients come back at once.
fn orphaned_pause() -> Duration {
    Duration::from_millis(fastrand::u64(250..=500))
}

impl Driver {
    /// Begins to look for a further connection if there is to be one, and stops if there is not.
    pub(super) fn connect_if_wanted(&mut self) {
        if self.machine.wants_connection() {
            if self.next.is_none() {
                let current = self.current.as_ref();
                let left = current.and_then(|current| current.candidate.clone());
                self.route.failed(left, Moment::now());
                let pause = self.pause.take();
                self.next = Some(Connection::begin(&self.settings, pause));
            }
        } else {
            // The machine knows of those that have a number.
            self.next.take_if(|next| next.number.is_none());
        }
    }

    pub(super) fn on_next(&mut self, event: Event) {
        let now = Moment::now();
        let Some(next) = &mut self.next else {
            return;
        };
        match event {
            Event::Found(found) => self.found(now, found),
            Event::Dialled(Ok(channel)) => {
                let requests = next.outbound.begin();
                if self.machine.is_moving() || self.machine.is_orphaned(now) {
                    // What there is is not touched before somebody is there to take it over.
                    let limit = self.machine.attempt_limit(now);
                    next.link = Link::start(channel, requests, Some(limit));
                } else {
                    next.number = Some(self.machine.connected(now, next.endpoint()));
                    // The `open` is in the channel before the stream begins.
                    self.carry_out();
                    if let Some(next) = &mut self.next {
                        next.link = Link::start(channel, requests, None);
                    }
                }
            }
            Event::Dialled(Err(error)) => self.attempt_failed(now, error),
            Event::Started(_) => {
                if next.number.is_none() {
                    next.number = Some(self.machine.connected(now, next.endpoint()));
                }
            }
            Event::Message(message) => {
                if let Some(number) = next.number {
                    self.machine.message(now, number, message);
                }
            }
            Event::Ended(status) => {
                let error = broke(next, status);
                if next.number.is_some() {
                    self.machine.attempt_failed(now, Fate::of(&error));
                }
                self.attempt_failed(now, error);
            }
        }
    }

    fn found(&mut self, now: Moment, found: Found) {
        let mut candidates = Vec::new();
        self.round_errors.clear();
        for found in found {
            match found {
                Ok(candidate) => candidates.push(candidate),
                Err(error) => self.round_errors.push(error),
            }
        }
        self.route.begin_round(candidates, now);
        self.dial_next(now);
    }

    /// Tries the next one; after all of them, pauses.
    fn dial_next(&mut self, now: Moment) {
        if let Some(candidate) = self.route.next() {
            let limit = self.machine.attempt_limit(now);
            self.next = Some(Connection::dial(&self.settings, candidate, limit));
            return;
        }
        self.next = None;
        let errors = std::mem::take(&mut self.round_errors);
        let nobody = || ConnectError::Ended {
            endpoint: self.settings.endpoints.to_string(),
        };
        if let Some(opened) = self.channels.opened.take() {
            // Whoever opens a session wants to know at once.
            let error = most_telling(errors).unwrap_or_else(nobody);
            opened.send(Err(error)).ok();
            self.ended = true;
            return;
        }
        let error = Arc::new(least_final(errors).unwrap_or_else(nobody));
        let asked = error.failure().and_then(Failure::retry_after);
        if self.machine.connect_failed(now, &error) {
            tracing::warn!(
                "failed to move the session, which stays on its stream and tries again later: {error}"
            );
            return;
        }
        let pause = match asked {
            None if self.machine.is_orphaned(now) => self.pauses.pause(now).min(orphaned_pause()),
            _ => self.pauses.pause_as_asked(now, asked),
        };
        self.pause = Some(pause);
    }

    fn attempt_failed(&mut self, now: Moment, error: ConnectError) {
        tracing::debug!("failed to open a session: {error}");
        let failed = self.next.take().and_then(|next| next.candidate);
        self.route.failed(failed, now);
        self.round_errors.push(error);
        self.dial_next(now);
    }

    /// Handles an event of a stream that did not open in time.
    pub(super) fn on_overdue(&mut self, index: usize, event: Event) {
        let now = Moment::now();
        match event {
            Event::Message(message) => self.machine.overdue_message(now, message),
            Event::Ended(status) => {
                let overdue = self.overdue.swap_remove(index);
                let error = broke(&overdue, status);
                tracing::debug!("a stream that had not opened in time ended: {error}");
                self.machine.overdue_ended(now, Fate::of(&error));
            }
            Event::Found(_) | Event::Dialled(_) | Event::Started(_) => {}
        }
    }

    pub(super) fn current_ended(&mut self, now: Moment) {
        self.channels.status.send_replace(Status::default());
        let ended = self.current.take().and_then(|current| current.candidate);
        self.route.failed(ended, now);
        if self.next.is_some() {
            return;
        }
        // Another one may be there at once. What ended as soon as it was open is paused for all the same.
        let elsewhere = self.route.is_several() && self.pauses.lived(now);
        let pause = self.pauses.pause(now);
        self.pause = (!elsewhere).then_some(pause);
    }

    /// Handles the stop of the coordinator, which may be back at any moment, and may have a successor already. Attempts go on
    /// without the pauses that had grown while it was going away.
    pub(super) fn current_stopped(&mut self, now: Moment) {
        self.next.take_if(|next| next.candidate.is_none());
        self.pauses.start_anew();
        self.current_ended(now);
    }

    /// Has the session move to a stream with newer credentials, if there are any by now: certificates and tokens expire, and their files
    /// are replaced before.
    pub(super) fn renew_credentials(&mut self, now: Moment) {
        let Some(current) = &self.current else {
            return;
        };
        if self.looked_at.is_some_and(|at| now.since(at) < LOOK) {
            return;
        }
        self.looked_at = Some(now);
        if self.settings.credentials.version() != current.credentials {
            let pause = SPREAD.mul_f64(fastrand::f64());
            self.machine.plan_move(now, now.after(pause));
        }
    }

    pub(super) fn hang_up(&mut self, number: u64, error: Option<ConnectError>) {
        let now = Moment::now();
        let is = |connection: &Option<Connection>| {
            let connection = connection.as_ref();
            connection.is_some_and(|connection| connection.number == Some(number))
        };
        if is(&self.current) {
            self.current_ended(now);
        } else if is(&self.next) {
            let Some(error) = error else {
                self.next = None;
                return;
            };
            if let Some(overdue) = self.next.take_if(|_| Fate::of(&error) == Fate::Kept) {
                self.route.failed(overdue.candidate.clone(), now);
                self.overdue.push(overdue);
                let surplus = self.overdue.len().saturating_sub(MOST_OVERDUE);
                for _ in self.overdue.drain(..surplus) {
                    // As if its coordinator had ended it.
                    self.machine.overdue_ended(now, Fate::Dropped);
                }
            }
            self.attempt_failed(now, error);
        }
    }
}

/// Returns the error of a connection whose stream ended before it was open.
fn broke(connection: &Connection, status: Option<tonic::Status>) -> ConnectError {
    let failure = status.map(Failure::from_status);
    ConnectError::broke(connection.endpoint().to_string(), failure)
}

/// Returns the error to report: an answer says more than the lack of one.
fn most_telling(errors: Vec<ConnectError>) -> Option<ConnectError> {
    let errors = errors.into_iter();
    errors.max_by_key(|error| (is_answer(error), error.is_retryable()))
}

/// Returns the error that leaves most hope: the session waits as long as one coordinator may serve later.
fn least_final(errors: Vec<ConnectError>) -> Option<ConnectError> {
    let errors = errors.into_iter();
    errors.max_by_key(|error| (error.is_retryable(), is_answer(error)))
}

fn is_answer(error: &ConnectError) -> bool {
    error.failure().is_some()
}

#[cfg(test)]
mod tests {
    use tonic::Status;

    use super::*;

    fn refused(status: Status) -> ConnectError {
        ConnectError::Refused {
            endpoint: "http://a".into(),
            source: Failure::from_status(status),
        }
    }

    fn silent() -> ConnectError {
        ConnectError::Ended {
            endpoint: "http://b".into(),
        }
    }

    #[test]
    fn one_that_refuses_for_good_does_not_speak_for_those_that_may_serve_later() {
        let refusal = || refused(Status::unimplemented("nobody here"));
        for errors in [[refusal(), silent()], [silent(), refusal()]] {
            assert!(least_final(errors.into()).unwrap().is_retryable());
        }
        for errors in [[refusal(), silent()], [silent(), refusal()]] {
            assert!(!most_telling(errors.into()).unwrap().is_retryable());
        }
        let draining = refused(Status::unavailable("going away"));
        let error = least_final(vec![draining, refusal(), silent()]).unwrap();
        assert!(is_answer(&error) && error.is_retryable());
        let error = least_final(vec![refusal(), refusal()]).unwrap();
        assert!(!error.is_retryable());
        assert!(least_final(Vec::new()).is_none());
    }
}
