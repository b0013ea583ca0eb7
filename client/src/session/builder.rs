//! Builder of a session.

use std::{collections::HashMap, time::Duration};

use tokio::sync::{mpsc, oneshot, watch};

use super::{
    driver::{ACQUIRE_QUEUE, Channels, Driver, Status},
    handle::Session,
    stream::wire,
};
use crate::{calls::Calls, error::ConnectError, proto::v1};

/// What a session asks for when it is opened.
///
/// Made by [`Client::session`](crate::Client::session), with what the client was built with as defaults.
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
#[must_use = "a session is opened by `open`"]
pub struct SessionBuilder {
    calls: Calls,
    options: SessionOptions,
}

/// What the builders of clients and sessions have in common.
#[derive(Clone, Default, Debug)]
pub(crate) struct SessionOptions {
    pub(crate) client_name: String,
    pub(crate) ttl: Option<Duration>,
    pub(crate) metadata: HashMap<String, String>,
    pub(crate) disconnect_grace: Duration,
}

impl SessionBuilder {
    pub(crate) fn new(calls: Calls, options: SessionOptions) -> Self {
        Self { calls, options }
    }

    /// Who this is, for operators: at most 256 bytes without control characters. Default: the client's.
    pub fn client_name(mut self, name: impl Into<String>) -> Self {
        self.options.client_name = name.into();
        self
    }

    /// How long a lock outlives the loss of contact: 1 s to 1 h unless the coordinator is configured otherwise.
    /// Default: the client's, else the coordinator's, 10 s. A shorter one frees the locks of a machine that has died
    /// sooner; a longer one survives longer interruptions.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.options.ttl = Some(ttl);
        self
    }

    /// Free text for operators, shown by `ListSessions`: at most 16 entries, keys of 1 to 64 bytes, values of at most
    /// 256. Default: the client's.
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.metadata.insert(key.into(), value.into());
        self
    }

    /// For how long locks are kept when their stream breaks, for the session to resume them on another one: 0 to the TTL.
    /// Default: the client's, else 0.
    ///
    /// Without a grace a lock is lost at the moment at which its stream breaks, and the coordinator hands it on as soon as it
    /// hears of that. With one, the lock is [suspended](crate::LockState::Suspended): not held, but nobody else can have it,
    /// until the session has resumed it, here or at another coordinator, or the grace or the time for which it was known to
    /// be good has passed. The price is that the locks of a process that has died stay taken for as long.
    ///
    /// No grace is needed for a coordinator that goes away on purpose, or that falls silent: the session moves to another
    /// one before the stream breaks, and its locks are held throughout.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// use std::time::Duration;
    ///
    /// let session = client.session().disconnect_grace(Duration::from_secs(10)).open().await?;
    /// let guard = session.lock("orders/42").acquire().await?;
    /// # Ok(()) });
    /// ```
    pub fn disconnect_grace(mut self, grace: Duration) -> Self {
        self.options.disconnect_grace = grace;
        self
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
        let open = v1::SessionOpen {
            client_name: self.options.client_name,
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
            opened: opened_sender,
        };
        tokio::spawn(Driver::new(settings, open, channels).run());
        // If this future is dropped, the handles go with it, and the task ends.
        let session = Session::new(acquire_sender, note_sender, status, self.calls);
        match opened.await {
            Ok(result) => result.map(|()| session),
            // The runtime is shutting down.
            Err(_) => Err(ConnectError::Ended { endpoint }),
        }
    }
}
