//! Interface between the driver and a lock service.

use std::future::Future;

/// A lock service that runs for this measurement alone.
pub trait Rival {
    /// Session of a client.
    type Session: Session;

    /// Whether it keeps a queue of who waits for a name: otherwise its clients poll.
    const QUEUES: bool;

    /// Returns the version of the measured service.
    fn version(&self) -> &str;

    /// Returns the settings of the rival, in words for the reader of a table.
    fn settings(&self) -> String;

    /// Begins what one client has of its own: its connection and its lease, where the rival's users have those for each
    /// client.
    ///
    /// # Errors
    ///
    /// If the service does not answer.
    fn session(&self) -> impl Future<Output = anyhow::Result<Self::Session>> + Send;

    /// Returns the number of acquires that the service knows of: those that hold, and those that it has queued. 0 once every
    /// lock was released.
    ///
    /// # Errors
    ///
    /// If the service does not answer.
    fn known(&self) -> impl Future<Output = anyhow::Result<u64>> + Send;
}

/// One client. A clone is the same client with another request in flight.
pub trait Session: Clone + Send + 'static {
    /// Hold of a lock, as its release needs it.
    type Hold: Send;

    /// Waits for as long as it takes until this client holds `name`.
    ///
    /// # Errors
    ///
    /// If the service fails, or refuses where nobody else asks.
    fn acquire(
        &mut self,
        name: &str,
    ) -> impl Future<Output = anyhow::Result<Grant<Self::Hold>>> + Send;

    /// Releases, and waits until the service has said so.
    ///
    /// # Errors
    ///
    /// If the service fails.
    fn release(&mut self, hold: Self::Hold) -> impl Future<Output = anyhow::Result<()>> + Send;
}

/// A lock that was granted.
#[derive(Debug)]
pub struct Grant<H> {
    /// The hold to release.
    pub hold: H,
    /// Its fencing token, where the rival has such: a number that rises with every grant of a name.
    pub token: Option<i64>,
}
