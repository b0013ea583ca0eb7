//! The layer in front of all services that counts what goes through it.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tonic::{
    Code,
    codegen::{
        Service,
        http::{HeaderMap, Request, Response},
    },
};
use tower::Layer;

use super::{Call, Rpcs};

/// Counts every call, or nothing.
#[derive(Clone, Debug)]
pub struct RpcLayer(pub(in crate::telemetry) Option<Arc<Rpcs>>);

/// What [`RpcLayer`] puts in front of a service.
#[derive(Clone, Debug)]
pub struct CountedCalls<S> {
    inner: S,
    rpcs: Option<Arc<Rpcs>>,
}

impl<S> Layer<S> for RpcLayer {
    type Service = CountedCalls<S>;

    fn layer(&self, inner: S) -> CountedCalls<S> {
        CountedCalls {
            inner,
            rpcs: self.0.clone(),
        }
    }
}

impl<S, Asked, Answered> Service<Request<Asked>> for CountedCalls<S>
where
    S: Service<Request<Asked>, Response = Response<Answered>>,
{
    type Response = Response<CountedBody<Answered>>;
    type Error = S::Error;
    type Future = Counting<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Asked>) -> Self::Future {
        let rpcs = self.rpcs.as_ref();
        Counting {
            call: rpcs.map(|rpcs| rpcs.begin(request.uri().path())),
            inner: self.inner.call(request),
        }
    }
}

pin_project! {
    /// A call until its answer begins.
    #[derive(Debug)]
    pub struct Counting<F> {
        #[pin]
        inner: F,
        call: Option<Call>,
    }
}

impl<F, Answered, E> Future for Counting<F>
where
    F: Future<Output = Result<Response<Answered>, E>>,
{
    type Output = Result<Response<CountedBody<Answered>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let result = ready!(this.inner.poll(cx));
        let mut call = this.call.take();
        Poll::Ready(match result {
            Ok(response) => {
                // A refusal has its code here, and no body.
                note(&mut call, response.headers());
                Ok(response.map(|inner| CountedBody { inner, call }))
            }
            Err(error) => {
                if let Some(call) = &mut call {
                    call.ended(Code::Unknown);
                }
                Err(error)
            }
        })
    }
}

pin_project! {
    /// The answer to a call, until its end.
    #[derive(Debug)]
    pub struct CountedBody<B> {
        #[pin]
        inner: B,
        call: Option<Call>,
    }
}

impl<B: Body> Body for CountedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        let frame = ready!(this.inner.poll_frame(cx));
        match &frame {
            Some(Ok(frame)) => {
                if let Some(trailers) = frame.trailers_ref() {
                    note(this.call, trailers);
                }
            }
            // Without a code: no answer of ours ends like this.
            Some(Err(_)) | None => {
                if let Some(call) = this.call {
                    call.ended(Code::Unknown);
                }
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

fn note(call: &mut Option<Call>, headers: &HeaderMap) {
    if let Some(call) = call
        && let Some(code) = headers.get("grpc-status")
    {
        call.ended(Code::from_bytes(code.as_bytes()));
    }
}
