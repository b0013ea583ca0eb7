//! Builder of a session.

use std::{collections::HashMap, time::Duration};

use tokio::sync::{mpsc, oneshot, watch};

use super::{
    driver::{ACQUIRE_QUEUE, Channels, Driver, Status},
    handle::Session,
};
use crate::{
    calls::Calls,
    client_name,
    error::ConnectError,
    proto::{v1, wire},
};

/// Longest time for which a close waits for work under locks, unless a builder says otherwise.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Builder of a session, made by [`Client::session`](crate::Client::session). The client's settings are the defaults.
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// use std::time::Duration;
///
/// let session = client
///     .session()
///     .client_name("reports")
///     .ttl(Duration::from_secs(30))
///     .metadata("version", "1.4")
///     .open()
///     .await?;
/// assert_eq!(session.info().unwrap().ttl, Duration::from_secs(30));
/// # Ok(()) });
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing before `open`"]
pub struct SessionBuilder {
    calls: Calls,
    options: SessionOptions,
}

/// Settings that the builders of clients and sessions have in common.
#[derive(Clone, Default, Debug)]
pub(crate) struct SessionOptions {
    pub(crate) client_name: Option<String>,
    pub(crate) ttl: Option<Duration>,
    pub(crate) metadata: HashMap<String, String>,
    pub(crate) disconnect_grace: Duration,
    pub(crate) default_wait: Option<Duration>,
    pub(crate) close_timeout: Option<Duration>,
}

impl SessionOptions {
    /// Returns the name that the program set, or the default.
    pub(crate) fn client_name(&self) -> String {
        let name = self.client_name.clone();
        name.unwrap_or_else(client_name::default)
    }
}

/// Implements the setters of [`SessionOptions`] for a builder that has them in a field `options`.
macro_rules! session_setters {
    ($type:ident) => {
        impl $type {
            /// Sets the name that operators see: at most 256 bytes without control characters. Default: the program, host
            /// and process, such as `billing@web-1/4711`; for a further session, the client's.
            pub fn client_name(mut self, name: impl Into<String>) -> Self {
                self.options.client_name = Some(name.into());
                self
            }

            /// Sets the time for which a lock outlives the loss of contact: 1 s to 1 h unless the coordinator is configured
            /// otherwise. A shorter TTL frees the locks of a dead machine sooner; a longer one survives longer
            /// interruptions. Default: the coordinator's, 10 s; for a further session, the client's.
            pub fn ttl(mut self, ttl: std::time::Duration) -> Self {
                self.options.ttl = Some(ttl);
                self
            }

            /// Adds free text that operators see in the list of sessions: at most 16 entries, keys of 1 to 64 bytes,
            /// values of at most 256. Default: none; for a further session, the client's.
            pub fn metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
                self.options.metadata.insert(key.into(), value.into());
                self
            }

            /// Sets the time for which locks are kept when their stream breaks, so that the session can resume them on
            /// another one: 0 to the TTL. Default: 0; for a further session, the client's.
            ///
            /// Without a grace a lock is lost at the moment at which its stream breaks, and the coordinator hands it on as
            /// soon as it notices. With a grace, the lock is [suspended](crate::LockState::Suspended): not held, but nobody
            /// else can have it, until the session has resumed it, here or at another coordinator, or the grace or the
            /// lock's validity has passed. The price is that the locks of a process that has died stay taken for as long.
            ///
            /// A coordinator that goes away on purpose, or that falls silent, needs no grace: the session moves to another
            /// one before the stream breaks, and its locks are held throughout.
            ///
            /// ```
            /// # leasehold_tests::doc(async |client| {
            /// use std::time::Duration;
            ///
            /// let session = client.session().disconnect_grace(Duration::from_secs(10)).open().await?;
            /// let guard = session.lock("orders/42").await?;
            /// # Ok(()) });
            /// ```
            pub fn disconnect_grace(mut self, grace: std::time::Duration) -> Self {
                self.options.disconnect_grace = grace;
                self
            }

            /// Sets how long an acquire of locks or permits waits that says nothing of it: at most 24 h; zero means not to wait.
            /// Campaigns are not bounded by it. Default: as long as it takes; for a further session, the client's.
            ///
            /// ```
            /// # leasehold_tests::doc(async |client| {
            /// # let _held = client.lock("orders/42").await?;
            /// use std::time::Duration;
            /// use leasehold_client::AcquireError;
            ///
            /// let session = client.session().default_wait(Duration::from_millis(10)).open().await?;
            /// let refused = session.lock("orders/42").await.unwrap_err();
            /// assert!(matches!(refused, AcquireError::TimedOut { .. }));
            /// # Ok(()) });
            /// ```
            pub fn default_wait(mut self, wait: std::time::Duration) -> Self {
                self.options.default_wait = Some(wait);
                self
            }

            /// Sets how long a [close](crate::Session::close) waits for the end of work under locks. Zero: not at all. Default:
            /// 10 s; for a further session, the client's.
            pub fn close_timeout(mut self, timeout: std::time::Duration) -> Self {
                self.options.close_timeout = Some(timeout);
                self
            }
        }
    };
}

pub(crate) use session_setters;

session_setters!(SessionBuilder);

impl SessionBuilder {
    pub(crate) fn new(calls: Calls, options: SessionOptions) -> Self {
        Self { calls, options }
    }

    /// Opens the session on a connection of its own. All coordinators are attempted once; a session that has been open reconnects by
    /// itself. Must be called within a Tokio runtime, which then runs the session's task.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let session = client.session().open().await?;
    /// assert!(session.info().is_some());
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    ///
    /// If no coordinator can be reached within the connect time-out, or if none opens a session.
    pub async fn open(self) -> Result<Session, ConnectError> {
        let settings = self.calls.settings().clone();
        let (acquire_sender, acquires) = mpsc::channel(ACQUIRE_QUEUE);
        let (note_sender, notes) = mpsc::unbounded_channel();
        let (status_sender, status) = watch::channel(Status::default());
        let (opened_sender, opened) = oneshot::channel();
        let handling = (
            self.options.default_wait,
            self.options.close_timeout.unwrap_or(CLOSE_TIMEOUT),
        );
        let open = v1::SessionOpen {
            client_name: self.options.client_name(),
            ttl: self.options.ttl.map(wire),
            metadata: self.options.metadata,
            disconnect_grace: Some(wire(self.options.disconnect_grace)),
            ..v1::SessionOpen::default()
        };
        let endpoint = settings.endpoints.to_string();
        let channels = Channels {
            acquires,
            notes,
            note_sender: note_sender.downgrade(),
            status: status_sender,
            opened: Some(opened_sender),
        };
        tokio::spawn(Driver::new(settings, open, channels).run());
        // If this future is dropped, the handles go with it, and the task ends.
        let session = Session::new(acquire_sender, note_sender, status, self.calls, handling);
        match opened.await {
            Ok(result) => result.map(|()| session),
            // The runtime is shutting down.
            Err(_) => Err(ConnectError::Ended { endpoint }),
        }
    }
}
