//! Builder of a client.

use std::{path::PathBuf, time::Duration};

use crate::{
    calls::Calls,
    endpoints::Endpoints,
    error::ConnectError,
    session::{SessionOptions, session_setters},
    settings::Settings,
    trace::{TraceContext, TraceSource},
    transport::{CredentialSettings, Credentials, TokenSource},
};

/// Builder of a client.
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
#[must_use = "a builder does nothing before `connect`"]
pub struct ClientBuilder {
    pub(crate) options: SessionOptions,
    /// Settings other than the endpoints and their credentials.
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

session_setters!(ClientBuilder);

impl ClientBuilder {
    /// Sets how long an attempt to connect may take, and as long again until the session is open; less if a hold would run
    /// out meanwhile. Default: 5 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.settings.connect_timeout = timeout;
        self
    }

    /// Sets the pauses between attempts to reconnect, after each round of all coordinators: from about `min`, doubling, with
    /// random parts, to at most `max`. Default: 50 ms to 2 s.
    pub fn backoff(mut self, min: Duration, max: Duration) -> Self {
        self.settings.backoff_min = min;
        self.settings.backoff_max = max;
        self
    }

    /// Sets a PEM file with the certificates of the CAs that the client trusts, for `https://` endpoints. The client reads a
    /// changed file again for each new connection. Default: the CAs that the system trusts (or that `SSL_CERT_FILE` names).
    pub fn tls_ca(mut self, path: impl Into<PathBuf>) -> Self {
        self.credentials.tls.ca = Some(path.into());
        self
    }

    /// Sets PEM files with the certificate that the client shows to coordinators (with any intermediate certificates), and
    /// its private key, for `https://` endpoints. The client reads changed files again: new connections use the new
    /// certificate, and sessions move to such a connection, with all that they hold. Default: none.
    pub fn tls_identity(
        mut self,
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Self {
        self.credentials.tls.identity = Some((certificate.into(), key.into()));
        self
    }

    /// Sets the name or address that must be in the coordinators' certificates, if it differs from that of their URLs. All
    /// `https://` endpoints need a certificate for it. Default: the host of the endpoint, at whatever address.
    pub fn tls_server_name(mut self, name: impl Into<String>) -> Self {
        self.credentials.tls.server_name = Some(name.into());
        self
    }

    /// Sets the bearer token that the client shows with every call and session. Over `http://` the client sends it to this
    /// machine only, unless [allowed](ClientBuilder::allow_plaintext_credentials). Default: none.
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

    /// Sets a file with the bearer token in its only line, in place of [`ClientBuilder::bearer_token`]. The client reads a
    /// changed file again, so that a token can be replaced before it expires: calls use the new one, and sessions move to a
    /// connection that does, with all that they hold. If the file can't be read then, the last token stays in use.
    pub fn bearer_token_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.credentials.token = Some(TokenSource::File(path.into()));
        self
    }

    /// Sends the bearer token over `http://` to other machines too, where anybody on the way can read and use it. Only for
    /// networks that encrypt by other means, such as a mesh.
    pub fn allow_plaintext_credentials(mut self) -> Self {
        self.credentials.allow_plaintext = true;
        self
    }

    /// Sets the source of the trace context of requests. The client calls it for the context of the current span, in the
    /// task that makes a request and at that moment, so it must be quick and must not panic. Requests with a
    /// [context of their own](crate::LockRequest::trace_context) don't call it. Without a context, the coordinator decides
    /// what it traces. Default: none.
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
    /// A task-local variable as the source:
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

    /// Returns the calls to these endpoints.
    pub(crate) fn calls(&self, endpoints: Endpoints) -> Result<Calls, ConnectError> {
        Calls::new(Settings {
            credentials: Credentials::new(&self.credentials, &endpoints)?,
            endpoints,
            ..self.settings.clone()
        })
    }
}
