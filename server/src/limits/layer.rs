//! Layer that counts calls before they are served, and bounds the time until they are complete.

use std::{
    future::{Ready, ready},
    task::{Context, Poll},
};

use futures_util::{TryFutureExt, future::Either, future::MapOk};
use tonic::{
    Code, Status,
    body::Body,
    codegen::{
        Service,
        http::{Request, Response},
    },
};
use tower::Layer;

use super::{Limits, bodies};
use crate::access::{Caller, HEALTH};

/// The methods of ours begin like this; others are those of health and reflection, and what there is not.
const OURS: &str = "/leasehold.";
/// Whoever shows life keeps its lock, and whoever gives something back is not hindered.
const NEVER_REFUSED: [&str; 2] = [
    "/leasehold.v1.LockService/Renew",
    "/leasehold.v1.LockService/Release",
];

/// Refuses calls of callers that make too many, or do not finish saying what they ask, and says in our own words what is wrong
/// with messages that are too large.
///
/// It goes behind what puts the [`Caller`] into requests, and leaves its [`Account`](super::Account) there.
#[derive(Clone, Debug)]
pub struct LimitLayer {
    limits: Limits,
}

impl LimitLayer {
    /// With these limits.
    #[must_use]
    pub const fn new(limits: Limits) -> Self {
        Self { limits }
    }
}

/// What [`LimitLayer`] puts in front of a service.
#[derive(Clone, Debug)]
pub struct Limited<S> {
    inner: S,
    layer: LimitLayer,
}

impl<S> Layer<S> for LimitLayer {
    type Service = Limited<S>;

    fn layer(&self, inner: S) -> Limited<S> {
        Limited {
            inner,
            layer: self.clone(),
        }
    }
}

/// Says what is wrong with a response's request, if it is the matter of this layer.
type InOurWords = Box<dyn FnOnce(Response<Body>) -> Response<Body> + Send>;

impl<S> Service<Request<Body>> for Limited<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Either<Ready<Result<Response<Body>, S::Error>>, MapOk<S::Future, InOurWords>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let limits = &self.layer.limits;
        let (head, body) = request.into_parts();
        let body = bodies::in_time(head.uri.path(), body, limits.shared.patience);
        let mut request = Request::from_parts(head, body);
        let caller = Caller::of(request.extensions());
        let path = request.uri().path();
        let is_ours = path.starts_with(OURS);
        let account = if HEALTH.contains(&path) {
            limits.account_for_health(&caller)
        } else {
            limits.account(&caller)
        };
        if !NEVER_REFUSED.contains(&path)
            && let Err(refusal) = limits.request(&account)
        {
            let refused = Status::from(refusal).into_http();
            return Either::Left(ready(Ok(refused)));
        }
        if is_ours {
            request.extensions_mut().insert(account);
        }
        let limits = limits.clone();
        let words: InOurWords = Box::new(move |response| in_our_words(response, &limits, is_ours));
        Either::Right(self.inner.call(request).map_ok(words))
    }
}

/// Messages that are too large are refused before they are ours, as out of range; nothing else is.
fn in_our_words(response: Response<Body>, limits: &Limits, is_ours: bool) -> Response<Body> {
    let is_too_large = Status::from_header_map(response.headers())
        .is_some_and(|status| status.code() == Code::OutOfRange);
    if is_too_large {
        let refusal = if is_ours {
            limits.message_too_large()
        } else {
            limits.message_of_others_too_large()
        };
        return Status::from(refusal).into_http();
    }
    response
}
