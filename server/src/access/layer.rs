//! The layer in front of all services: each request is somebody's from here on.

use std::task::{Context, Poll};

use tonic::codegen::{Service, http::Request};
use tower::Layer;

use super::Caller;
use crate::listener::ConnectionHandle;

/// Puts the [`Caller`] into the extensions of each request.
#[derive(Clone, Copy, Debug, Default)]
pub struct AccessLayer;

/// What [`AccessLayer`] puts in front of a service.
#[derive(Clone, Debug)]
pub struct Accessible<S> {
    inner: S,
}

impl<S> Layer<S> for AccessLayer {
    type Service = Accessible<S>;

    fn layer(&self, inner: S) -> Accessible<S> {
        Accessible { inner }
    }
}

impl<S, B> Service<Request<B>> for Accessible<S>
where
    S: Service<Request<B>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let extensions = request.extensions_mut();
        let peer = extensions.get::<ConnectionHandle>();
        if let Some(peer) = peer.map(ConnectionHandle::peer_addr) {
            extensions.insert(Caller::anonymous(peer));
        }
        self.inner.call(request)
    }
}
