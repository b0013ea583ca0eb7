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

use super::{Limits, bodies};
use crate::{
    access::Caller,
    layered::{Behind, Front, Kept},
    methods::Method,
};

/// Refuses calls of callers that make too many or do not complete their requests, and replaces tonic's error for messages that
/// are too large.
///
/// It must come after the layer that puts the [`Caller`] into requests, and adds the [`Account`](super::Account).
#[derive(Clone, Debug)]
pub struct LimitLayer {
    limits: Limits,
}

impl LimitLayer {
    /// Returns a layer with these limits.
    #[must_use]
    pub const fn new(limits: Limits) -> Front<Self> {
        Front(Self { limits })
    }
}

/// Rewrites a response if this layer's limit is the cause of its error.
type InOurWords = Box<dyn FnOnce(Response<Body>) -> Response<Body> + Send>;

impl<S> Service<Request<Body>> for Behind<LimitLayer, S>
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
        let limits = &self.front.limits;
        let (head, body) = request.into_parts();
        let method = Method::at(head.uri.path());
        let body = bodies::in_time(method, body, limits.shared.patience);
        let mut request = Request::from_parts(head, body);
        let caller = Caller::of(request.extensions());
        let is_ours = method.is_ours();
        let account = if method.is_health() {
            limits.account_for_health(&caller)
        } else {
            limits.account(&caller)
        };
        if method.is_limited()
            && let Err(refusal) = limits.request(&account)
        {
            let refused = Status::from(refusal).into_http();
            return Either::Left(ready(Ok(refused)));
        }
        if is_ours {
            request.extensions_mut().insert(account);
        }
        let limits = limits.clone();
        let words: InOurWords =
            Box::new(move |response| Kept::by_body(in_our_words(response, &limits, is_ours)));
        Either::Right(self.inner.call(request).map_ok(words))
    }
}

/// Rewrites the error of a message that is too large. tonic alone answers with OUT_OF_RANGE, and only for these.
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
