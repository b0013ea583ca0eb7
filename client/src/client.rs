//! Client: a default session, a channel for single calls, and the way to further sessions.

use std::sync::Arc;

use crate::{
    Actor, Admin, Channel, ClientBuilder, Election, LockAllRequest, LockRequest, LockWatch,
    Semaphore, Session, SessionBuilder, WithLockError, calls::Calls, endpoints::Endpoints,
    error::ConnectError, session::SessionOptions,
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
    pub(crate) fn new(calls: Calls, options: SessionOptions, session: Session) -> Self {
        Self(Arc::new(Inner {
            calls,
            options,
            session,
        }))
    }

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

    /// Requests a lock on the default session; see [`Session::lock`].
    pub fn lock(&self, name: impl Into<Arc<str>>) -> LockRequest {
        self.0.session.lock(name)
    }

    /// Returns a semaphore, whose permits the default session will hold; see [`Session::semaphore`].
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let permit = client.semaphore("downloads", 3).permits(1).await?;
    /// # Ok(()) });
    /// ```
    pub fn semaphore(&self, name: impl Into<Arc<str>>, limit: u32) -> Semaphore {
        self.0.session.semaphore(name, limit)
    }

    /// Requests several locks at once on the default session; see [`Session::lock_all`].
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let guards = client.lock_all(["account/7", "account/9"]).await?;
    /// # Ok(()) });
    /// ```
    pub fn lock_all(&self, names: impl IntoIterator<Item: Into<Arc<str>>>) -> LockAllRequest {
        self.0.session.lock_all(names)
    }

    /// Returns the election of this name, with the default session for its campaigns; see [`Session::election`].
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let leadership = client.election("scheduler").campaign("10.0.0.7:8080").await?;
    /// println!("leading, with token {}", leadership.fencing_token());
    /// # Ok(()) });
    /// ```
    pub fn election(&self, name: impl Into<Arc<str>>) -> Election {
        self.0.session.election(name)
    }

    /// Makes a new actor for the default session; see [`Session::actor`].
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let me = client.actor();
    /// let guard = client.lock("orders/42").actor(me).await?;
    /// # Ok(()) });
    /// ```
    pub fn actor(&self) -> Actor {
        self.0.session.actor()
    }

    /// Runs work while holding a lock of the default session; see [`LockRequest::with`].
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let sold = client
    ///     .with_lock("stock/apples", |lock| async move {
    ///         println!("selling with token {}", lock.fencing_token());
    ///         3
    ///     })
    ///     .await?;
    /// assert_eq!(sold, 3);
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`LockRequest::with`].
    pub async fn with_lock<T, F>(
        &self,
        name: impl Into<Arc<str>>,
        work: impl FnOnce(LockWatch) -> F,
    ) -> Result<T, WithLockError>
    where
        F: Future<Output = T>,
    {
        self.lock(name).with(work).await
    }

    /// Runs work that can fail while holding a lock of the default session; see [`LockRequest::try_with`].
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// use std::error::Error;
    ///
    /// let sold = client
    ///     .try_with_lock("stock/apples", |_lock| async {
    ///         Ok::<u32, Box<dyn Error>>("3".parse()?)
    ///     })
    ///     .await?;
    /// assert_eq!(sold, 3);
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`LockRequest::try_with`].
    pub async fn try_with_lock<T, E, F>(
        &self,
        name: impl Into<Arc<str>>,
        work: impl FnOnce(LockWatch) -> F,
    ) -> Result<T, E>
    where
        E: From<WithLockError>,
        F: Future<Output = Result<T, E>>,
    {
        self.lock(name).try_with(work).await
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
