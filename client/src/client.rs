//! The client: a default session, a channel for single calls, and the way to further sessions.

use std::{path::PathBuf, sync::Arc, time::Duration};

use crate::{
    Actor, Admin, Channel, Election, LockAllRequest, LockRequest, LockWatch, Semaphore, Session,
    SessionBuilder, WithLockError,
    calls::Calls,
    endpoints::Endpoints,
    error::ConnectError,
    session::SessionOptions,
    settings::Settings,
    transport::{CredentialSettings, Credentials, TokenSource},
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
/// let guard = client.lock("orders/42").acquire().await?;
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
    /// Connects and opens the default session, with default settings. Where several [`Endpoints`] are given, with one of
    /// them: which one is left to chance.
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

    /// Where the coordinators are: what it was made with, separated by commas.
    pub fn endpoint(&self) -> &str {
        self.0.calls.settings().endpoints.as_str()
    }

    /// Asks for a lock on the default session; see [`Session::lock`].
    pub fn lock(&self, name: impl Into<Arc<str>>) -> LockRequest {
        self.0.session.lock(name)
    }

    /// Asks for permits of a semaphore on the default session; see [`Session::semaphore`].
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let permit = client.semaphore("downloads", 3).acquire(1).await?;
    /// # Ok(()) });
    /// ```
    pub fn semaphore(&self, name: impl Into<Arc<str>>, limit: u32) -> Semaphore {
        self.0.session.semaphore(name, limit)
    }

    /// Asks for several locks at once on the default session; see [`Session::lock_all`].
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let guards = client.lock_all(["account/7", "account/9"]).acquire().await?;
    /// # Ok(()) });
    /// ```
    pub fn lock_all(&self, names: impl IntoIterator<Item: Into<Arc<str>>>) -> LockAllRequest {
        self.0.session.lock_all(names)
    }

    /// The election of this name, with the default session for its campaigns; see [`Session::election`].
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

    /// A new actor for the default session; see [`Session::actor`].
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// let me = client.actor();
    /// let guard = client.lock("orders/42").actor(me).acquire().await?;
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

    /// The default session.
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

    /// A further session, with a fate of its own: other TTL, other connection.
    pub fn session(&self) -> SessionBuilder {
        SessionBuilder::new(self.0.calls.clone(), self.0.options.clone())
    }

    /// Looks inside the coordinator and steps in.
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

    /// The channel for single calls with the generated stubs in [`proto::v1`](crate::proto::v1). It connects when it is
    /// first used, and again when needed; sessions do not use it. It leads to one coordinator: after a call that failed
    /// there, ask for it again to be led to the one that is in use then.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// use leasehold_client::proto::v1::{
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
    /// assert!(client.lock("orders/42").acquire().await.is_err());
    /// # Ok(()) });
    /// ```
    pub async fn close(&self) {
        self.0.session.close().await;
    }
}

/// Settings of a client.
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// # let endpoint = client.endpoint().to_owned();
/// use std::time::Duration;
/// use leasehold_client::Client;
///
/// let client = Client::builder()
///     .client_name("order service")
///     .ttl(Duration::from_secs(30))
///     .metadata("pod", "orders-7f")
///     .connect_timeout(Duration::from_secs(2))
///     .backoff(Duration::from_millis(20), Duration::from_secs(1))
///     .connect(endpoint)
///     .await?;
/// # Ok(()) });
/// ```
#[derive(Clone, Debug)]
#[must_use = "a client is made by `connect`"]
pub struct ClientBuilder {
    options: SessionOptions,
    /// But for the endpoints, and what they need.
    settings: Settings,
    credentials: CredentialSettings,
}

impl Default for ClientBuilder {
    fn default() -> Self {
        Self {
            options: SessionOptions::default(),
            settings: Settings::new(Endpoints::from("")),
            credentials: CredentialSettings::default(),
        }
    }
}

impl ClientBuilder {
    /// Who this is, for operators: at most 256 bytes without control characters. Default: empty.
    pub fn client_name(mut self, name: impl Into<String>) -> Self {
        self.options.client_name = name.into();
        self
    }

    /// The TTL of the default session, and of further ones unless they ask for another; see [`SessionBuilder::ttl`].
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.options.ttl = Some(ttl);
        self
    }

    /// Free text for operators; see [`SessionBuilder::metadata`].
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.metadata.insert(key.into(), value.into());
        self
    }

    /// For how long locks may be [suspended](crate::LockState::Suspended) when their stream breaks; see
    /// [`SessionBuilder::disconnect_grace`].
    pub fn disconnect_grace(mut self, grace: Duration) -> Self {
        self.options.disconnect_grace = grace;
        self
    }

    /// How long an attempt to connect may take, and as long again until the session is open: less where something is held
    /// that runs out meanwhile. Default: 5 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.settings.connect_timeout = timeout;
        self
    }

    /// The pauses between attempts to reconnect, after each round of all coordinators: from about `min`, doubling, with random parts, to at most `max`.
    /// Default: 50 ms to 2 s.
    pub fn backoff(mut self, min: Duration, max: Duration) -> Self {
        self.settings.backoff_min = min;
        self.settings.backoff_max = max;
        self
    }

    /// A PEM file with the certificates of those who may certify coordinators, for `https://` endpoints. It is read again
    /// for each new connection if it has changed. Default: those that the system trusts (or that `SSL_CERT_FILE` names).
    pub fn tls_ca(mut self, path: impl Into<PathBuf>) -> Self {
        self.credentials.tls.ca = Some(path.into());
        self
    }

    /// PEM files with the certificate (and what is between it and its CA) to show to coordinators, and its private key, for
    /// `https://` endpoints. They are read again when they have changed: new connections come with the new certificate, and
    /// sessions move to one that does, with all that they hold. Default: none.
    pub fn tls_identity(
        mut self,
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Self {
        self.credentials.tls.identity = Some((certificate.into(), key.into()));
        self
    }

    /// The name or address that has to be in the coordinators' certificates, where it is not that of their URLs: all
    /// `https://` endpoints have to be certified for it. Default: the host of the endpoint, at whatever address.
    pub fn tls_server_name(mut self, name: impl Into<String>) -> Self {
        self.credentials.tls.server_name = Some(name.into());
        self
    }

    /// The token by which coordinators know the caller, shown with every call and session. Over `http://` it is only sent
    /// to this machine, unless [allowed](ClientBuilder::allow_plaintext_credentials). Default: none.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// # let endpoint = client.endpoint().to_owned();
    /// use leasehold_client::Client;
    ///
    /// let client = Client::builder().bearer_token("lh_ZXhhbXBsZQ").connect(endpoint).await?;
    /// # Ok(()) });
    /// ```
    pub fn bearer_token(mut self, token: impl Into<String>) -> Self {
        self.credentials.token = Some(TokenSource::Given(token.into()));
        self
    }

    /// A file with that token in its only line, in place of one that is given. It is read again when it has changed, so that
    /// a token can be replaced before it expires: calls come with the new one, and sessions move to a connection that does,
    /// with all that they hold. What can't be read then leaves the last token in use.
    pub fn bearer_token_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.credentials.token = Some(TokenSource::File(path.into()));
        self
    }

    /// Sends the bearer token over `http://` to other machines too, where everybody on the way can read and use it: for
    /// networks in which something else encrypts, such as a mesh.
    pub fn allow_plaintext_credentials(mut self) -> Self {
        self.credentials.allow_plaintext = true;
        self
    }

    /// Looks inside coordinators and steps in, without a session; see [`Admin::connect`].
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// # let endpoint = client.endpoint().to_owned();
    /// use leasehold_client::Client;
    ///
    /// let admin = Client::builder().bearer_token("lh_ZXhhbXBsZQ").admin(endpoint)?;
    /// assert!(admin.list_locks("").await?.is_empty());
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    ///
    /// If an endpoint is not an `http://` or `https://` URL, or if certificates or the token can't be used.
    pub fn admin(self, endpoints: impl Into<Endpoints>) -> Result<Admin, ConnectError> {
        Ok(Admin::new(self.calls(endpoints.into())?))
    }

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
        Ok(Client(Arc::new(Inner {
            calls,
            options: self.options,
            session,
        })))
    }

    fn calls(&self, endpoints: Endpoints) -> Result<Calls, ConnectError> {
        Calls::new(Settings {
            credentials: Credentials::new(&self.credentials, &endpoints)?,
            endpoints,
            ..self.settings.clone()
        })
    }
}
