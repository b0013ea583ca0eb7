//! Layer in front of all services that counts calls.

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

use super::{Call, Rpcs};
use crate::{
    layered::Behind,
    listener::{ConnectionHandle, UnderWay},
};

/// Layer that counts every call, or none if metrics are off, and reports which calls were cancelled.
#[derive(Clone, Debug)]
pub struct RpcLayer(pub(in crate::telemetry) Option<Arc<Rpcs>>);

impl<S, Asked, Answered> Service<Request<Asked>> for Behind<RpcLayer, S>
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
        let rpcs = self.front.0.as_ref();
        let connection = request.extensions().get::<ConnectionHandle>();
        let call = Begun {
            counted: rpcs.map(|rpcs| rpcs.begin(request.uri().path())),
            under_way: connection.cloned().map(UnderWay::new),
        };
        Counting {
            call: Some(call),
            inner: self.inner.call(request),
        }
    }
}

/// The observers of a call's end. The call ends when this is dropped, as cancelled unless another end is known.
#[derive(Debug)]
struct Begun {
    counted: Option<Call>,
    under_way: Option<UnderWay>,
}

impl Begun {
    fn ended(&mut self, code: Code) {
        if let Some(counted) = &mut self.counted {
            counted.ended(code);
        }
        // With these codes, tonic ends calls that were reset or whose messages can't be decoded; no client waits for an answer.
        let is_answer = !matches!(code, Code::Cancelled | Code::Internal | Code::Unknown);
        if is_answer && let Some(under_way) = &mut self.under_way {
            under_way.ended();
        }
    }
}

pin_project! {
    /// Future of a call until its answer begins.
    #[derive(Debug)]
    pub struct Counting<F> {
        #[pin]
        inner: F,
        call: Option<Begun>,
    }
}

impl<F, Answered, E> Future for Counting<F>
where
    F: Future<Output = Result<Response<Answered>, E>>,
{
    type Output = Result<Response<CountedBody<Answered>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let under_way = this.call.as_mut().and_then(|call| call.under_way.as_mut());
        if under_way.is_some_and(|under_way| !under_way.step()) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let result = ready!(this.inner.poll(cx));
        let mut call = this.call.take();
        Poll::Ready(match result {
            Ok(response) => {
                // A refusal has its code in the headers, and no body.
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
    /// Body of an answer, until its end.
    #[derive(Debug)]
    pub struct CountedBody<B> {
        #[pin]
        inner: B,
        call: Option<Begun>,
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
                // The client has received an answer.
                if frame.is_data()
                    && let Some(Begun {
                        under_way: Some(under_way),
                        ..
                    }) = this.call
                {
                    under_way.ended();
                }
                if let Some(trailers) = frame.trailers_ref() {
                    note(this.call, trailers);
                }
            }
            // An answer of ours always ends with a code.
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

fn note(call: &mut Option<Begun>, headers: &HeaderMap) {
    if let Some(call) = call
        && let Some(code) = headers.get("grpc-status")
    {
        call.ended(Code::from_bytes(code.as_bytes()));
    }
}
