//! Layer in front of all others: the choice of the protocol, and calls of protocols other than gRPC.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{
    TryFutureExt,
    future::{BoxFuture, Either, FutureExt, MapOk},
};
use prost_reflect::DescriptorPool;
use tokio::time::{Instant, timeout_at};
use tonic::{
    Code,
    body::Body,
    codegen::{
        Service, StdError,
        http::{
            HeaderValue, Method, Request, Response, StatusCode, Version, header, request::Parts,
        },
    },
};
use tonic_web::GrpcWebLayer;
use tower::{Layer, ServiceExt, service_fn};
use tower_http::cors::{AllowHeaders, AllowOrigin, Any, CorsLayer};

use super::{
    answer,
    body::Answer,
    call::{Refused, Rejection, Schema},
    metadata,
    protocol::Protocol,
    request::RequestBody,
    rest,
    websocket::{self, Upgrade},
};
use crate::{
    layered::Behind,
    listener::{ConnectionHandle, HEADER_LIST, UnderWay},
};

/// Time for which a browser remembers that a page may call.
const REMEMBERED: Duration = Duration::from_secs(60 * 60);

/// Rule for origins: returns whether a web page may make a request, by its origin and the head of the request.
type Allowed = dyn Fn(&HeaderValue, &Parts) -> bool + Send + Sync;

/// Rule for requests of GET without an origin: returns whether a web page of another server may have made one, by its head.
type Doubtful = dyn Fn(&Parts) -> bool + Send + Sync;

/// Bound of the messages to some methods.
#[derive(Clone, Copy)]
struct Others {
    /// Returns whether a path is of the other methods.
    are: fn(&str) -> bool,
    limit: usize,
}

/// Layer that serves Connect and gRPC-Web by the gRPC services behind it.
///
/// It must be the outermost, so that all others see gRPC alone. The server must accept HTTP/1.
#[derive(Clone)]
pub struct ConnectLayer {
    schema: Arc<Schema>,
    /// Most bytes of a message, as sent and decompressed.
    limit: usize,
    others: Option<Others>,
    allowed: Arc<Allowed>,
    doubtful: Arc<Doubtful>,
    cors: CorsLayer,
    websockets: Option<websocket::Settings>,
}

/// Future of an answer: gRPC's is the service's own.
pub type Answering<F, B, E> = Either<
    MapOk<F, fn(Response<B>) -> Response<Answer<B>>>,
    BoxFuture<'static, Result<Response<Answer<B>>, E>>,
>;

impl ConnectLayer {
    /// Returns a layer that serves the methods of `pool` to everyone except web pages. `limit` is the most bytes of a message, as
    /// sent and decompressed. Details of errors get a readable form if `pool` has their types.
    #[must_use]
    pub fn new(pool: DescriptorPool, limit: usize) -> Self {
        let layer = Self {
            schema: Arc::new(Schema::new(pool)),
            limit,
            others: None,
            allowed: Arc::new(|_, _| false),
            doubtful: Arc::new(|_| false),
            cors: CorsLayer::new(),
            websockets: None,
        };
        layer.allow_origins(|_, _| false)
    }

    /// Serves web pages of the origins for which `allowed` returns true, too. It gets the head of the request as well.
    #[must_use]
    pub fn allow_origins(
        mut self,
        allowed: impl Fn(&HeaderValue, &Parts) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.allowed = Arc::new(allowed);
        let allowed = Arc::clone(&self.allowed);
        self.cors = CorsLayer::new()
            .allow_origin(AllowOrigin::predicate(move |origin, head| {
                allowed(origin, head)
            }))
            .allow_methods([Method::GET, Method::POST])
            .allow_headers(AllowHeaders::mirror_request())
            .expose_headers(Any)
            .max_age(REMEMBERED);
        self
    }

    /// Bounds the messages to methods further, for whose paths `are` returns true.
    #[must_use]
    pub const fn limit_others(mut self, are: fn(&str) -> bool, limit: usize) -> Self {
        self.others = Some(Others { are, limit });
        self
    }

    /// Refuses requests of GET that name no origin if `doubtful` returns true for them. A browser names none if it takes the page and the
    /// server for one, as it does if somebody has pointed the page's host name here after it was loaded.
    #[must_use]
    pub fn refuse_gets(
        mut self,
        doubtful: impl Fn(&Parts) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.doubtful = Arc::new(doubtful);
        self
    }

    /// Returns the most bytes of a message to the method at a path.
    fn limit_at(&self, path: &str) -> usize {
        match self.others {
            Some(others) if (others.are)(path) => self.limit.min(others.limit),
            _ => self.limit,
        }
    }

    /// Serves methods that stream both ways over WebSockets of HTTP/1.1, too, and pings a client that has been silent for so long.
    ///
    /// The server must serve connections of [`accept`](crate::listener::accept): such a connection leaves it.
    #[must_use]
    pub const fn serve_websockets(mut self, ping: Duration) -> Self {
        self.websockets = Some(websocket::Settings {
            limit: self.limit,
            ping,
        });
        self
    }

    /// Returns why a request is refused by its head, whatever its protocol.
    fn rejection(&self, head: &Parts, protocol: Protocol) -> Option<Rejection> {
        if let Some(origin) = head.headers.get(header::ORIGIN)
            && !(self.allowed)(origin, head)
        {
            let message = format!("web pages of the origin {origin:?} may not call (cors-origins)");
            return Some(Rejection::new(
                StatusCode::FORBIDDEN,
                Code::PermissionDenied,
                message,
            ));
        }
        // No page can ask for an upgrade but by a WebSocket, which names its origin.
        if head.method == Method::GET
            && !head.headers.contains_key(header::ORIGIN)
            && !head.headers.contains_key(header::UPGRADE)
            && (self.doubtful)(head)
        {
            return Some(Rejection::new(
                StatusCode::FORBIDDEN,
                Code::PermissionDenied,
                "GET by a host name needs TLS, or a token where the coordinator asks for one, since a web page could have made it: call by POST, or by the address",
            ));
        }
        let is_old = head.version < Version::HTTP_2;
        if is_old && size(head) > HEADER_LIST as usize {
            let message = format!("the headers are larger than {HEADER_LIST} bytes");
            return Some(Rejection::new(
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                Code::ResourceExhausted,
                message,
            ));
        }
        match protocol {
            Protocol::Grpc | Protocol::GrpcWeb if head.method != Method::POST => Some(
                Rejection::wrong_method("POST", "gRPC and gRPC-Web are called by POST"),
            ),
            Protocol::Grpc => Some(Rejection::needs_http2("gRPC")),
            Protocol::GrpcWeb if is_old && self.schema.is_bidirectional(head.uri.path()) => {
                Some(Rejection::needs_http2("a call that streams both ways"))
            }
            Protocol::Unknown => Some(Rejection::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                Code::Unknown,
                "unsupported media type",
            )),
            Protocol::GrpcWeb | Protocol::Connect => None,
        }
    }

    /// Answers a request that is not gRPC over HTTP/2.
    async fn answer<S, B>(
        self,
        inner: S,
        request: Request<Body>,
        protocol: Protocol,
        deadline: Option<Instant>,
    ) -> Result<Response<Body>, S::Error>
    where
        S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
        S::Future: Send,
        S::Error: Send,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<StdError> + fmt::Display,
    {
        let (mut head, body) = request.into_parts();
        if let Some(rejection) = self.rejection(&head, protocol) {
            return Ok(match protocol {
                Protocol::Connect => self.rejected(&head, rejection),
                Protocol::Grpc | Protocol::GrpcWeb | Protocol::Unknown => {
                    count(&head);
                    answer::rejected_in_text(rejection)
                }
            });
        }
        if protocol == Protocol::GrpcWeb {
            let request = Request::from_parts(head, body);
            return self.answer_grpc_web(inner, request, deadline).await;
        }
        if let Some(settings) = self.websockets
            && websocket::is_asked(&head, &body)
            && let Some(connection) = head.extensions.get::<ConnectionHandle>().cloned()
            && let Some(upgrade) = Upgrade::read(&mut head, &self.schema)
        {
            let upgrade = match upgrade {
                Ok(upgrade) => upgrade,
                Err(rejection) => return Ok(self.rejected(&head, rejection)),
            };
            let response = upgrade.answer();
            let call = websocket::serve(
                (connection.clone(), connection.take_over()),
                upgrade.call,
                inner,
                Request::from_parts(head, ()),
                self.schema,
                settings,
            );
            tokio::spawn(call);
            return Ok(response);
        }
        let mut call = match self.schema.call(&head) {
            Ok(call) => call,
            Err(Refused::Request(rejection)) => return Ok(self.rejected(&head, *rejection)),
            Err(Refused::Call(refused)) => {
                count(&head);
                let (call, status) = *refused;
                return Ok(answer::refused(&call, &status, &self.schema));
            }
        };
        let deadline = call.timeout.map(|timeout| Instant::now() + timeout);
        metadata::to_grpc(&mut head.headers, call.timeout);
        let body = match call.message.take() {
            Some(message) => Body::new(http_body_util::Full::new(message)),
            None => body,
        };
        let body = RequestBody::new(body, call.clone(), self.limit_at(head.uri.path()));
        head.method = Method::POST;
        let request = Request::from_parts(head, Body::new(body));
        let answered = async {
            let response = inner.oneshot(request).await?;
            if call.is_unary {
                Ok(answer::unary(&call, response, &self.schema).await)
            } else {
                let call = call.clone();
                Ok(answer::stream(call, response, deadline, &self.schema))
            }
        };
        match deadline {
            None => answered.await,
            Some(deadline) => match timeout_at(deadline, answered).await {
                Ok(answer) => answer,
                Err(_) => Ok(answer::refused(&call, &answer::too_late(), &self.schema)),
            },
        }
    }

    fn rejected(&self, head: &Parts, rejection: Rejection) -> Response<Body> {
        count(head);
        answer::rejected(rejection, &self.schema)
    }

    /// Answers a request of gRPC-Web. Its messages are counted, and its time kept, behind the translation.
    async fn answer_grpc_web<S, B>(
        self,
        inner: S,
        request: Request<Body>,
        deadline: Option<Instant>,
    ) -> Result<Response<Body>, S::Error>
    where
        S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
        S::Future: Send,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<StdError> + fmt::Display,
    {
        let call = self.schema.call_of_grpc_web(request.uri().path());
        let limit = self.limit_at(request.uri().path());
        let service = service_fn(move |request: Request<Body>| {
            let request = match call.clone() {
                Some(call) => request.map(|body| Body::new(RequestBody::new(body, call, limit))),
                None => request,
            };
            let answered = inner.clone().oneshot(request);
            async move {
                let response = match deadline {
                    None => answered.await?,
                    Some(deadline) => match timeout_at(deadline, answered).await {
                        Ok(answer) => answer?,
                        Err(_) => return Ok(answer::too_late().into_http()),
                    },
                };
                Ok(response.map(Body::new))
            }
        });
        GrpcWebLayer::new().layer(service).oneshot(request).await
    }
}

/// Counts a request that is answered here among those of its connection, which the listener bounds.
fn count(head: &Parts) {
    if let Some(connection) = head.extensions.get::<ConnectionHandle>() {
        UnderWay::new(connection.clone()).ended();
    }
}

/// Returns the size of a head, as HTTP/2 counts it.
fn size(head: &Parts) -> usize {
    let path = head
        .uri
        .path_and_query()
        .map_or(0, |path| path.as_str().len());
    let headers = head.headers.iter();
    headers.fold(path, |size, (name, value)| {
        size + name.as_str().len() + value.len() + 32
    })
}

impl<S> Layer<S> for ConnectLayer {
    type Service = Behind<Self, S>;

    fn layer(&self, inner: S) -> Self::Service {
        Behind {
            front: self.clone(),
            inner,
        }
    }
}

impl<S, B> Service<Request<Body>> for Behind<ConnectLayer, S>
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<StdError> + fmt::Display,
{
    type Response = Response<Answer<B>>;
    type Error = S::Error;
    type Future = Answering<S::Future, B, S::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let protocol = Protocol::of(&request);
        let is_served = request.version() >= Version::HTTP_2 && *request.method() == Method::POST;
        if protocol == Protocol::Grpc && is_served {
            let own: fn(_) -> _ = |response: Response<B>| response.map(Answer::grpc);
            return Either::Left(self.inner.call(request).map_ok(own));
        }
        // tonic's own server keeps the time of each call in front of all layers, and answers in gRPC. This deadline is no later, and
        // is looked at first.
        let deadline = (protocol == Protocol::GrpcWeb)
            .then(|| metadata::timeout_of_grpc(request.headers()))
            .flatten()
            .map(|timeout| Instant::now() + timeout);
        let (layer, inner) = (self.front.clone(), self.inner.clone());
        let service = service_fn(move |request| {
            let (layer, inner) = (layer.clone(), inner.clone());
            async move {
                let limit = layer.limit;
                let (request, rest) = rest::lend(request);
                let response = layer.answer(inner, request, protocol, deadline).await;
                let read = rest.read(limit);
                match deadline {
                    None => read.await,
                    // The answer may not be later.
                    Some(deadline) => _ = timeout_at(deadline, read).await,
                }
                response
            }
        });
        let answered = self.front.cors.layer(service).oneshot(request);
        let answered = answered.map_ok(|response| response.map(Answer::other));
        Either::Right(answered.boxed())
    }
}

impl fmt::Debug for ConnectLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectLayer")
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}
