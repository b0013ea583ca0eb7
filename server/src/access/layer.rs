//! The layer in front of all services: nobody comes by who has to show an identity and does not.

use std::{
    future::{Ready, ready},
    task::{Context, Poll},
    time::SystemTime,
};

use futures_util::future::Either;
use tonic::{
    Status,
    codegen::{
        Service,
        http::{Request, Response},
    },
};
use tower::Layer;

use super::{Access, Caller};
use crate::{
    listener::ConnectionHandle,
    status::{Reason, Refusal},
};

/// What orchestrators ask, who have no identity: it tells nothing of locks.
pub(crate) const HEALTH: [&str; 2] = [
    "/grpc.health.v1.Health/Check",
    "/grpc.health.v1.Health/Watch",
];

/// Puts the [`Caller`] into the extensions of each request, and refuses those of nobody.
#[derive(Clone, Debug)]
pub struct AccessLayer {
    access: Access,
}

/// What [`AccessLayer`] puts in front of a service.
#[derive(Clone, Debug)]
pub struct Accessible<S> {
    access: Access,
    inner: S,
}

impl AccessLayer {
    /// A layer that goes by this.
    #[must_use]
    pub fn new(access: Access) -> Self {
        Self { access }
    }
}

impl<S> Layer<S> for AccessLayer {
    type Service = Accessible<S>;

    fn layer(&self, inner: S) -> Accessible<S> {
        Accessible {
            access: self.access.clone(),
            inner,
        }
    }
}

impl Access {
    fn caller<B>(&self, request: &Request<B>) -> Result<Caller, Refusal> {
        let connection = request.extensions().get::<ConnectionHandle>();
        let connection = connection.ok_or_else(|| {
            Refusal::new(
                Reason::Unauthenticated,
                "the connection of this request is not known",
            )
        })?;
        let policy = self.policies.borrow();
        match policy.identify(request.headers(), connection, SystemTime::now()) {
            Err(_) if HEALTH.contains(&request.uri().path()) => {
                Ok(Caller::anonymous(connection.peer_addr()))
            }
            identified => identified,
        }
    }
}

impl<S, B, Answer> Service<Request<B>> for Accessible<S>
where
    S: Service<Request<B>, Response = Response<Answer>>,
    Answer: Default,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Either<Ready<Result<S::Response, S::Error>>, S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        match self.access.caller(&request) {
            Ok(caller) => {
                request.extensions_mut().insert(caller);
                Either::Right(self.inner.call(request))
            }
            Err(refusal) => {
                let path = request.uri().path();
                tracing::debug!(path, ?refusal, "a request without an identity was refused");
                Either::Left(ready(Ok(Status::from(refusal).into_http())))
            }
        }
    }
}
