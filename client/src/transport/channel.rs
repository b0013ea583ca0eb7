//! Channel that adds the client's credentials and trace context to each call.

use std::{
    error::Error as StdError,
    sync::Arc,
    task::{Context, Poll},
};

use tonic::{
    body::Body,
    codegen::{
        BoxFuture, Service,
        http::{Request, Response, header::AUTHORIZATION},
    },
    transport::{self, Endpoint, Uri},
};

use super::{connector::Connector, credentials::Credentials, verdict::Verdict};
use crate::{error::CredentialsError, trace::TraceSource};

type BoxError = Box<dyn StdError + Send + Sync>;

/// Channel to a coordinator for generated stubs, such as those of the crate `leasehold-proto`. It encrypts if the URL says
/// so, and adds the client's bearer token, if there is one, and the caller's
/// [trace](crate::ClientBuilder::trace_context_from) to every call that has no `traceparent` of its own. Cheap to clone.
///
/// The channel is a service of the crate `tonic`: it changes when that crate makes a breaking release.
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// use leasehold_proto::v1::{
///     CheckTokenRequest, admin_service_client::AdminServiceClient,
/// };
///
/// let guard = client.lock("orders/42").await?;
/// let request = CheckTokenRequest {
///     name: "orders/42".to_owned(),
///     fencing_token: guard.fencing_token().get(),
/// };
/// let answer = AdminServiceClient::new(client.channel()).check_token(request).await?;
/// assert!(answer.into_inner().current);
/// # Ok(()) });
/// ```
#[derive(Clone, Debug)]
pub struct Channel {
    channel: transport::Channel,
    endpoint: Arc<str>,
    credentials: Credentials,
    traces: TraceSource,
    /// Verdict on its newest connection.
    verdict: Verdict,
}

/// Destination of a channel, and the way there.
pub(crate) struct Target {
    endpoint: Endpoint,
    /// The URL by which people know it.
    url: Arc<str>,
    connector: Connector,
    credentials: Credentials,
    traces: TraceSource,
    /// Verdict on its newest connection.
    verdict: Verdict,
}

impl Target {
    /// Returns a target. The server at the endpoint must have a certificate for `uri`.
    pub(crate) fn new(
        endpoint: Endpoint,
        uri: &Uri,
        credentials: &Credentials,
    ) -> Result<Self, CredentialsError> {
        let tls = match credentials.tls(uri) {
            None => None,
            Some(tls) => {
                let server_name = tls.server_name(uri)?;
                Some((tls, server_name))
            }
        };
        let verdict = Verdict::default();
        let connector = Connector::new(tls, endpoint.get_connect_timeout(), verdict.clone());
        // A URL without a path is shown as it is given, without the `/` that stands for it.
        let url = uri.to_string();
        let url = url.strip_suffix('/').unwrap_or(&url).into();
        Ok(Self {
            endpoint,
            url,
            connector,
            credentials: credentials.clone(),
            traces: TraceSource::default(),
            verdict,
        })
    }

    /// Calls tell the trace that they are part of.
    pub(crate) fn traced(self, traces: &TraceSource) -> Self {
        Self {
            traces: traces.clone(),
            ..self
        }
    }

    /// Connects at once.
    pub(crate) async fn connect(self) -> Result<Channel, BoxError> {
        let connected = transport::Channel::connect(self.connector, self.endpoint).await;
        Ok(Channel {
            channel: connected.map_err(|error| self.verdict.explain(error))?,
            endpoint: self.url,
            credentials: self.credentials,
            traces: self.traces,
            verdict: self.verdict,
        })
    }

    /// Connects when it is first used, and again when needed. Must be called within a Tokio runtime.
    pub(crate) fn connect_lazy(self) -> Channel {
        Channel {
            channel: transport::Channel::new(self.connector, self.endpoint),
            endpoint: self.url,
            credentials: self.credentials,
            traces: self.traces,
            verdict: self.verdict,
        }
    }
}

impl Channel {
    /// Returns the URL of the coordinator that it leads to.
    ///
    /// ```
    /// # leasehold_tests::doc(async |client| {
    /// assert_eq!(client.channel().endpoint(), client.endpoint());
    /// # Ok(()) });
    /// ```
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }
}

impl Service<Request<Body>> for Channel {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<Response<Body>, BoxError>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        let ready = self.channel.poll_ready(cx);
        ready.map_err(|error| self.verdict.explain(error))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        if let Some(authorization) = self.credentials.authorization() {
            request.headers_mut().insert(AUTHORIZATION, authorization);
        }
        self.traces.fill(request.headers_mut());
        let response = self.channel.call(request);
        let verdict = self.verdict.clone();
        Box::pin(async move { response.await.map_err(|error| verdict.explain(error)) })
    }
}
