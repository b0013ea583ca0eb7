//! Client: a default session, a channel for single calls, and the way to further sessions.

use std::sync::Arc;

use crate::{
    admin::Admin,
    builder::ClientBuilder,
    calls::Calls,
    endpoints::Endpoints,
    error::ConnectError,
    session::{Session, SessionBuilder, SessionOptions},
    transport::Channel,
};

/// A connection to a coordinator, or to any of several that serve the same locks. Cheap to clone; all clones share its
/// default session.
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// # let endpoint = client.endpoint().to_owned();
/// use leasehold_client::Client;
///
/// let client = Client::connect(endpoint).await?; // "http://127.0.0.1:7420", say
/// let guard = client.lock("orders/42").await?;
/// # Ok(()) });
/// ```
#[derive(Clone, Debug)]
pub struct Client(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    calls: Calls,
    options: SessionOptions,
    session: Session,
}

impl Client {
    /// Connects and opens the default session, with default settings. Of several [`Endpoints`], the client picks one at
    /// random.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// # let endpoint = client.endpoint().to_owned();
    /// use leasehold_client::Client;
    ///
    /// let client = Client::connect(endpoint).await?;
    /// assert!(client.default_session().info().is_some());
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    ///
    /// If an endpoint is not an `http://` or `https://` URL, if no coordinator can be reached within five seconds each, or if none opens
    /// a session. Later interruptions are not errors: the session reconnects by itself.
    pub async fn connect(endpoints: impl Into<Endpoints>) -> Result<Self, ConnectError> {
        Self::builder().connect(endpoints).await
    }

    /// Connects with other settings than the default.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// Returns the endpoints that the client was made with, separated by commas.
    pub fn endpoint(&self) -> &str {
        self.0.calls.settings().endpoints.as_str()
    }

    pub(crate) fn calls(&self) -> &Calls {
        &self.0.calls
    }

    pub(crate) fn client_name(&self) -> String {
        self.0.options.client_name()
    }

    /// Returns the default session.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let info = client.default_session().info().unwrap();
    /// println!("session {} at {}", info.session_id, info.coordinator);
    /// # Ok(()) });
    /// ```
    pub fn default_session(&self) -> &Session {
        &self.0.session
    }

    /// Returns a builder of a further session, with a TTL and a connection of its own.
    pub fn session(&self) -> SessionBuilder {
        SessionBuilder::new(self.0.calls.clone(), self.0.options.clone())
    }

    /// Returns the administration calls: listings, watches, force releases.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let free = client.admin().get_lock("orders/42").await?;
    /// assert!(free.holders.is_empty());
    /// # Ok(()) });
    /// ```
    pub fn admin(&self) -> Admin {
        Admin::new(self.0.calls.clone())
    }

    /// Returns a channel for single calls with the generated stubs of the crate `leasehold-proto`, for what this crate
    /// has no calls for. It connects when it is first used, and again when needed; sessions do not use it. It leads to one
    /// coordinator: after a failed call, take another channel, which leads to the coordinator in use then.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// use leasehold_proto::v1::{
    ///     AcquireOutcome, AcquireRequest, lock_service_client::LockServiceClient,
    /// };
    ///
    /// let mut locks = LockServiceClient::new(client.channel());
    /// let request = AcquireRequest { name: "cron/nightly".into(), ..Default::default() };
    /// let answer = locks.acquire(request).await?.into_inner();
    /// assert_eq!(answer.outcome(), AcquireOutcome::Granted);
    /// # Ok(()) });
    /// ```
    pub fn channel(&self) -> Channel {
        self.0.calls.channel()
    }

    /// Closes the default session; see [`Session::close`].
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// client.close().await;
    /// assert!(client.lock("orders/42").await.is_err());
    /// # Ok(()) });
    /// ```
    pub async fn close(&self) {
        self.0.session.close().await;
    }
}

impl ClientBuilder {
    /// Connects and opens the default session. Must be called within a Tokio runtime, which then runs its task.
    ///
    /// # Errors
    ///
    /// As for [`Client::connect`], and if certificates or the token can't be used.
    pub async fn connect(self, endpoints: impl Into<Endpoints>) -> Result<Client, ConnectError> {
        let calls = self.calls(endpoints.into())?;
        let session = SessionBuilder::new(calls.clone(), self.options.clone())
            .open()
            .await?;
        let options = self.options;
        Ok(Client(Arc::new(Inner {
            calls,
            options,
            session,
        })))
    }
}
