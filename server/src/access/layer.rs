//! Layer in front of all services that refuses callers without an identity where one is required.

use std::{
    future::{Ready, ready},
    sync::Arc,
    task::{Context, Poll},
    time::SystemTime,
};

use futures_util::future::Either;
use tonic::{
    Status,
    codegen::{
        Service,
        http::{Request, Response, header::AUTHORIZATION},
    },
};

use super::{Access, Caller};
use crate::{
    layered::{Behind, Front},
    limits::Limits,
    listener::ConnectionHandle,
    methods::Method,
    status::{Reason, Refusal},
};

/// Puts the [`Caller`] into the extensions of each request, and refuses callers without a required identity.
#[derive(Clone, Debug)]
pub struct AccessLayer {
    access: Access,
    limits: Limits,
}

impl AccessLayer {
    /// Returns a layer that asks `access`, and has `limits` count the callers without a valid identity.
    #[must_use]
    pub fn new(access: Access, limits: Limits) -> Front<Self> {
        Front(Self { access, limits })
    }

    /// Has the audit log tell of a caller without an identity. Those that are refused unheard are too many.
    fn tell<B>(&self, request: &Request<B>, refusal: &Refusal) {
        if refusal.reason() == Reason::Unauthenticated {
            let connection = request.extensions().get::<ConnectionHandle>();
            let peer = || connection.map(|connection| connection.peer_addr().to_string());
            let reason = refusal.reason().as_str();
            self.access.audit.denied(reason, (None, None), None, peer);
        }
    }

    fn caller<B>(&self, request: &Request<B>) -> Result<Caller, Refusal> {
        let connection = request.extensions().get::<ConnectionHandle>();
        let connection = connection.ok_or_else(|| {
            Refusal::new(
                Reason::Unauthenticated,
                "the connection of this request is not known",
            )
        })?;
        let headers = request.headers();
        let from = connection.peer_addr().ip();
        let policy = Arc::clone(&self.access.policies.borrow());
        match policy.identify(headers, connection, SystemTime::now(), &self.limits) {
            Err(_) if Method::at(request.uri().path()).is_health() => {
                // Health needs no identity. One that is shown all the same is checked at the same cost as elsewhere.
                if headers.contains_key(AUTHORIZATION) {
                    let _ = self.limits.failed_attempt(from);
                }
                Ok(Caller::anonymous(connection.peer_addr()))
            }
            Err(refusal) => Err(self.limits.failed_attempt(from).err().unwrap_or(refusal)),
            identified => identified,
        }
    }
}

impl<S, B, Answer> Service<Request<B>> for Behind<AccessLayer, S>
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
        match self.front.caller(&request) {
            Ok(caller) => {
                request.extensions_mut().insert(caller);
                Either::Right(self.inner.call(request))
            }
            Err(refusal) => {
                let path = request.uri().path();
                tracing::debug!(path, ?refusal, "a request without an identity was refused");
                self.front.tell(&request, &refusal);
                Either::Left(ready(Ok(Status::from(refusal).into_http())))
            }
        }
    }
}
