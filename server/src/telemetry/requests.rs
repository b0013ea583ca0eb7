//! Unary calls, each with a number: a span, and a line in the log at level debug.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use futures_util::future::{BoxFuture, Either, FutureExt};
use parking_lot::Mutex;
use tonic::{
    Code,
    codegen::{
        Service,
        http::{Extensions, Request, Response},
    },
};

use super::traces::{Traced, Traces};
use crate::{
    access::Caller,
    layered::{Behind, Front},
    methods::{Kind, Method},
};

/// Characters of a path that the log shows at most.
const SHOWN: usize = 128;

/// Returns whether the log has a line for each request.
pub(crate) fn are_logged() -> bool {
    tracing::enabled!(target: "leasehold_server::requests", tracing::Level::DEBUG)
}

/// Layer that traces and logs unary calls.
#[derive(Clone, Debug)]
pub struct RequestLayer {
    traces: Traces,
}

/// Trace of a unary call, to which its handler adds parts.
#[derive(Clone, Debug)]
pub struct Followed(Arc<Mutex<Option<Traced>>>);

impl RequestLayer {
    /// Creates the layer. `traces` decides which calls are traced.
    #[must_use]
    pub fn new(traces: Traces) -> Front<Self> {
        Front(Self { traces })
    }
}

impl<S, B, R> Service<Request<B>> for Behind<RequestLayer, S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    R: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Either<S::Future, BoxFuture<'static, Result<S::Response, S::Error>>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let is_logged = are_logged();
        if !self.front.traces.are_on() && !is_logged {
            return Either::Left(self.inner.call(request));
        }
        let caller = self.front.traces.context(request.headers());
        // The requests on a stream are traced and logged one by one.
        let method = Method::at(request.uri().path());
        if method.kind != Kind::Unary {
            request.extensions_mut().insert(caller);
            return Either::Left(self.inner.call(request));
        }
        let traced = self.front.traces.begin("call", &caller, "");
        if traced.is_none() && !is_logged {
            return Either::Left(self.inner.call(request));
        }
        let told = Told::of(&request, method, traced);
        request.extensions_mut().insert(told.followed.clone());
        let answered = self.inner.call(request);
        Either::Right(told.follow(answered).boxed())
    }
}

/// Facts of a call for its log line and span.
struct Told {
    number: u64,
    path: String,
    caller: Option<Caller>,
    since: Instant,
    trace: Option<String>,
    followed: Followed,
}

impl Told {
    /// Begins to follow a call. A span has the name of a known method, so that callers can't choose names.
    fn of<B>(request: &Request<B>, method: Method, mut traced: Option<Traced>) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        if let Some(traced) = &mut traced {
            traced.rename(format!("{}/{}", method.service, method.name));
            traced.set("rpc.system", "grpc");
            traced.set("rpc.service", method.service);
            traced.set("rpc.method", method.name);
            traced.set(
                "leasehold.request",
                i64::try_from(number).unwrap_or(i64::MAX),
            );
        }
        Self {
            number,
            path: request.uri().path().chars().take(SHOWN).collect(),
            caller: request.extensions().get::<Caller>().cloned(),
            since: Instant::now(),
            trace: traced.as_ref().map(Traced::id),
            followed: Followed(Arc::new(Mutex::new(traced))),
        }
    }

    async fn follow<R, E>(
        self,
        answered: impl Future<Output = Result<Response<R>, E>>,
    ) -> Result<Response<R>, E> {
        let answer = answered.await;
        // A refused call has its code in the headers.
        let code = answer.as_ref().ok().map_or(Code::Unknown, |response| {
            let status = response.headers().get("grpc-status");
            status.map_or(Code::Ok, |code| Code::from_bytes(code.as_bytes()))
        });
        if let Some(mut traced) = self.followed.0.lock().take() {
            traced.set("rpc.grpc.status_code", i64::from(code as i32));
            traced.end((code != Code::Ok).then(|| code.description()));
        }
        tracing::debug!(
            target: "leasehold_server::requests",
            request = self.number,
            call = self.path,
            caller = self.caller.as_ref().map(|caller| tracing::field::display(caller.key())),
            ?code,
            took = ?self.since.elapsed(),
            trace = self.trace,
            "answered"
        );
        answer
    }
}

impl Followed {
    /// Returns the trace of the call with these extensions. It ignores parts if the call is not traced.
    #[must_use]
    pub fn of(extensions: &Extensions) -> Self {
        let followed = extensions.get::<Self>().cloned();
        followed.unwrap_or_else(|| Self(Arc::default()))
    }

    /// Begins the part in which the store carries out a command.
    pub fn script(&self) {
        if let Some(traced) = &mut *self.0.lock() {
            traced.part("script");
        }
    }

    /// Begins the part in which the call waits for the lock.
    pub fn waits(&self) {
        if let Some(traced) = &mut *self.0.lock() {
            traced.part("wait");
        }
    }

    /// Ends the wait. The command that handed the lock over was sent `ago` before now.
    pub fn handed_off(&self, ago: impl FnOnce() -> Duration) {
        if let Some(traced) = &mut *self.0.lock() {
            traced.handed_off(ago());
        }
    }
}
