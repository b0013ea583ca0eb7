//! The settings of a client, and how it is made of them.

use std::{path::PathBuf, time::Duration};

use crate::{
    Admin, Client, Endpoints, SessionBuilder, TraceContext,
    calls::Calls,
    error::ConnectError,
    session::SessionOptions,
    settings::Settings,
    trace::TraceSource,
    transport::{CredentialSettings, Credentials, TokenSource},
};

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

    /// Where the trace comes from that a request is part of. Whatever asks a coordinator for something asks this for the
    /// context of the current span, in the task that asks and at that moment, so it has to be quick and must not panic.
    /// Acquires with a [context of their own](crate::LockRequest::trace_context) don't ask. Where there is none, it is left to
    /// the coordinator what is traced. Default: none.
    ///
    /// With the crates `tracing-opentelemetry` and `opentelemetry` it is
    ///
    /// ```text
    /// || {
    ///     let span = tracing::Span::current().context().span().span_context().clone();
    ///     let context = TraceContext::new(
    ///         span.trace_id().to_bytes(),
    ///         span.span_id().to_bytes(),
    ///         span.trace_flags().to_u8(),
    ///     )?;
    ///     Some(context.with_state(span.trace_state().header()))
    /// }
    /// ```
    ///
    /// And wherever else contexts come from:
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// # let endpoint = client.endpoint().to_owned();
    /// use leasehold_client::{Client, TraceContext};
    ///
    /// tokio::task_local! {
    ///     static CONTEXT: TraceContext;
    /// }
    ///
    /// let client = Client::builder()
    ///     .trace_context_from(|| CONTEXT.try_get().ok())
    ///     .connect(endpoint)
    ///     .await?;
    /// let context = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse()?;
    /// CONTEXT.scope(context, client.with_lock("orders/42", |_lock| async {})).await?;
    /// # Ok(()) });
    /// ```
    pub fn trace_context_from(
        mut self,
        source: impl Fn() -> Option<TraceContext> + Send + Sync + 'static,
    ) -> Self {
        self.settings.traces = TraceSource::new(source);
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
        Ok(Client::new(calls, self.options, session))
    }

    fn calls(&self, endpoints: Endpoints) -> Result<Calls, ConnectError> {
        Calls::new(Settings {
            credentials: Credentials::new(&self.credentials, &endpoints)?,
            endpoints,
            ..self.settings.clone()
        })
    }
}
