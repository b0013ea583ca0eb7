//! Status of a link for the layers above: whether it is up, why it is down, and the fate of a failed batch.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use redis::ServerError;
use thiserror::Error;
use tokio::{sync::watch, time::Instant};
use tracing::{debug, info, warn};

pub use crate::cause::DownCause;
use crate::cause::words;

/// Reason why a connection is down: the kind, and a sentence for people, which never contains a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) cause: DownCause,
    pub(crate) reason: Arc<str>,
}

impl Fault {
    pub(crate) fn new(cause: DownCause, reason: impl fmt::Display) -> Self {
        Self {
            cause,
            reason: reason.to_string().into(),
        }
    }

    /// Returns the fault of a server that answered with an error by which it can't be used.
    pub(super) fn answered(server: &impl fmt::Display, error: &ServerError) -> Self {
        let cause = DownCause::of(error.code(), error.details());
        let reason = format!("{server} {} ({})", cause.says(), words(error));
        Self::new(cause, reason)
    }
}

/// Status of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkStatus {
    /// At least one connection is down.
    Down {
        /// The kind of reason, of the first connection that is down.
        cause: DownCause,
        /// The event, its server, and what to do; for people.
        reason: Arc<str>,
    },
    /// Every connection is up.
    Up {
        /// The number of times that a connection has come up since the start. When it rises, replies may have been lost, or
        /// Redis may have come back without its data, even if no `Down` was seen in between.
        epoch: u64,
    },
}

impl LinkStatus {
    /// Returns whether every connection is up.
    pub fn is_up(&self) -> bool {
        matches!(self, Self::Up { .. })
    }
}

/// Error of a batch of commands that got no replies.
///
/// Both kinds may be tried again once the link is up. After `Down` that is always safe; after `Indeterminate` only for
/// idempotent commands.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The connection is down. Nothing was sent, so nothing happened.
    #[error("{reason}")]
    Down {
        /// The kind of reason.
        cause: DownCause,
        /// The event, its server, and what to do; for people.
        reason: Arc<str>,
    },
    /// The batch was sent (or was about to be) and the replies did not come: each command may or may not have happened,
    /// and may still happen.
    #[error("{reason}; the commands in flight may or may not have been executed")]
    Indeterminate {
        /// The event and its server; for people.
        reason: Arc<str>,
    },
}

impl LinkError {
    /// Returns whether the commands may have been executed, or may yet be. If not, they can safely be sent again.
    pub fn may_have_happened(&self) -> bool {
        matches!(self, Self::Indeterminate { .. })
    }
}

impl From<Fault> for LinkStatus {
    fn from(Fault { cause, reason }: Fault) -> Self {
        Self::Down { cause, reason }
    }
}

impl From<Fault> for LinkError {
    fn from(Fault { cause, reason }: Fault) -> Self {
        Self::Down { cause, reason }
    }
}

/// Time for which a link must be up for its next outage to be another one.
const STEADY: Duration = Duration::from_secs(5);
/// Interval at which a cause is logged again if the link keeps coming up and going down.
const SAY_AGAIN: Duration = Duration::from_secs(60);

/// Summary of the state of all connections of one kind, as it changes.
#[derive(Debug)]
pub(super) struct Board {
    /// Its name in the log: "Redis at …" or "the subscription to Redis at …".
    subject: String,
    connections: Mutex<Connections>,
    status: watch::Sender<LinkStatus>,
    /// The status of the command connections to the same server, so that an outage is logged once.
    commands: Option<watch::Receiver<LinkStatus>>,
}

#[derive(Debug)]
struct Connections {
    /// One for each connection; `None` is up.
    faults: Vec<Option<Fault>>,
    epoch: u64,
    logged: Logged,
}

/// What the log has of an outage. Several that follow each other closely count as one.
#[derive(Debug)]
struct Logged {
    /// The kinds of reason, and when each was logged.
    causes: Vec<(DownCause, Instant)>,
    /// Whether the log says last that the link is down.
    says_down: bool,
    up_since: Instant,
}

impl Board {
    /// Returns a board of `count` connections, all of them down for `fault`.
    pub(super) fn new(subject: String, count: usize, fault: &Fault) -> Self {
        let faults = vec![Some(fault.clone()); count];
        let connections = Mutex::new(Connections {
            faults,
            epoch: 0,
            logged: Logged {
                causes: vec![(fault.cause, Instant::now())],
                says_down: true,
                up_since: Instant::now(),
            },
        });
        let (status, _) = watch::channel(fault.clone().into());
        Self {
            subject,
            connections,
            status,
            commands: None,
        }
    }

    /// Suppresses the log of an outage while the command connections have one, which is logged already.
    pub(super) fn beside(self, commands: &Self) -> Self {
        Self {
            commands: Some(commands.watch()),
            ..self
        }
    }

    /// Returns whether the command connections to the same server are down as well.
    fn is_told_of(&self) -> bool {
        let commands = self.commands.as_ref();
        commands.is_some_and(|commands| !commands.borrow().is_up())
    }

    pub(super) fn watch(&self) -> watch::Receiver<LinkStatus> {
        self.status.subscribe()
    }

    pub(super) fn set_up(&self, index: usize) {
        self.set(index, None);
    }

    pub(super) fn set_down(&self, index: usize, fault: Fault) {
        self.set(index, Some(fault));
    }

    fn set(&self, index: usize, fault: Option<Fault>) {
        let mut connections = self
            .connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if fault.is_none() {
            connections.epoch += 1;
        }
        if let Some(slot) = connections.faults.get_mut(index) {
            *slot = fault;
        }
        let status = match connections.faults.iter().flatten().next() {
            Some(fault) => fault.clone().into(),
            None => LinkStatus::Up {
                epoch: connections.epoch,
            },
        };
        // Sent under the lock, so that an older summary never overwrites a newer one.
        self.status.send_if_modified(|current| {
            self.log(&mut connections.logged, current, &status);
            let changed = *current != status;
            *current = status;
            changed
        });
    }

    /// Logs what is news: a line for each outage and for each new kind of reason in it, not one for each attempt. Kinds that
    /// take turns are logged once each, and once a minute if the link comes up in between.
    fn log(&self, logged: &mut Logged, old: &LinkStatus, new: &LinkStatus) {
        let subject = &self.subject;
        if old.is_up() && logged.up_since.elapsed() >= STEADY {
            logged.causes.clear();
        } else if old.is_up() {
            logged.causes.retain(|(_, at)| at.elapsed() < SAY_AGAIN);
        }
        match (old, new) {
            (LinkStatus::Down { .. }, LinkStatus::Up { epoch }) => {
                logged.up_since = Instant::now();
                if std::mem::take(&mut logged.says_down) {
                    info!(epoch, "{subject} is up");
                }
            }
            (_, LinkStatus::Down { cause, reason }) if self.is_told_of() => {
                debug!(?cause, "{subject} is down: {reason}");
            }
            (_, LinkStatus::Down { cause, reason }) => {
                if !logged.causes.iter().any(|(known, _)| known == cause) {
                    logged.causes.push((*cause, Instant::now()));
                    logged.says_down = true;
                    let reason = after_subject(subject, reason);
                    warn!(?cause, "{subject} is down: {reason}{}", cause.advice());
                }
            }
            (LinkStatus::Up { .. }, LinkStatus::Up { .. }) => {}
        }
    }
}

/// Returns a reason to follow a subject, to which "it" refers if the reason begins with its name.
#[must_use]
pub fn after_subject(subject: &str, reason: &str) -> String {
    match reason.strip_prefix(subject) {
        Some(rest) => format!("it{rest}"),
        None => reason.to_owned(),
    }
}

/// Publishes a status if it differs from the present one. Logs a line for each outage, for each other cause in it, and for its
/// end.
pub(crate) fn publish(sender: &watch::Sender<LinkStatus>, status: LinkStatus, subject: &str) {
    sender.send_if_modified(|current| {
        match (&*current, &status) {
            (LinkStatus::Down { .. }, LinkStatus::Up { epoch }) => {
                info!(epoch, "{subject} is up");
            }
            (LinkStatus::Down { cause: before, .. }, LinkStatus::Down { cause, .. })
                if before == cause => {}
            (_, LinkStatus::Down { cause, reason }) => {
                warn!(?cause, "{subject} is down: {reason}{}", cause.advice());
            }
            (LinkStatus::Up { .. }, LinkStatus::Up { .. }) => {}
        }
        let is_news = *current != status;
        *current = status;
        is_news
    });
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn reasons_that_take_turns_are_logged_once_in_an_outage() {
        let fault = |cause| Fault::new(cause, "for a reason");
        let board = Board::new("Redis".to_owned(), 1, &fault(DownCause::Connecting));
        let logged = || {
            let connections = board.connections.lock().unwrap();
            let causes = connections.logged.causes.iter().map(|(cause, _)| *cause);
            (causes.collect::<Vec<_>>(), connections.logged.says_down)
        };
        for _ in 0..3 {
            board.set_down(0, fault(DownCause::TimedOut));
            board.set_down(0, fault(DownCause::Tls));
        }
        let once = [DownCause::Connecting, DownCause::TimedOut, DownCause::Tls];
        assert_eq!(logged(), (once.into(), true));
        // A link that comes up for a moment only is in the same outage, which is logged again after a minute.
        for (down_for, says_down) in [(1, false), (60, true)] {
            advance(Duration::from_secs(down_for)).await;
            board.set_up(0);
            assert!(!logged().1);
            advance(Duration::from_secs(1)).await;
            board.set_down(0, fault(DownCause::Tls));
            assert_eq!(logged().1, says_down, "{down_for} s");
        }
        board.set_up(0);
        advance(STEADY).await;
        board.set_down(0, fault(DownCause::TimedOut));
        assert_eq!(logged(), (vec![DownCause::TimedOut], true));
    }
}
