//! The server's two streams, as bytes: a scenario may send what no stub would.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    task::{Context, Poll},
};

use leasehold_tests::raw_bytes::RawBytes;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{
    Request, Response, Status, Streaming,
    body::Body,
    codegen::{BoxFuture, Service, StdError, http},
    server::{Grpc, NamedService, StreamingService},
};

/// Way of a call's responses to the client.
pub(crate) type Responses = mpsc::UnboundedSender<Result<Vec<u8>, Status>>;

/// A call that a client made.
pub(crate) struct Call {
    pub(crate) requests: Streaming<Vec<u8>>,
    pub(crate) responses: Responses,
}

/// Makes a service that has one method.
macro_rules! service {
    ($(#[$doc:meta])* $name:ident = $service:literal, $method:literal) => {
        $(#[$doc])*
        #[derive(Clone)]
        pub(crate) struct $name(Method);

        impl $name {
            pub(crate) fn new(calls: mpsc::UnboundedSender<Call>) -> Self {
                Self(Method(calls))
            }
        }

        impl NamedService for $name {
            const NAME: &'static str = $service;
        }

        impl<B> Service<http::Request<B>> for $name
        where
            B: http_body::Body + Send + 'static,
            B::Error: Into<StdError> + Send + 'static,
        {
            type Response = http::Response<Body>;
            type Error = Infallible;
            type Future = BoxFuture<Self::Response, Infallible>;

            fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
                Poll::Ready(Ok(()))
            }

            fn call(&mut self, request: http::Request<B>) -> Self::Future {
                let method = self.0.clone();
                Box::pin(async move {
                    if request.uri().path() != concat!("/", $service, "/", $method) {
                        return Ok(Status::unimplemented("the script has no such call").into_http());
                    }
                    Ok(Grpc::new(RawBytes).streaming(method, request).await)
                })
            }
        }
    };
}

service! {
    /// Sessions.
    Locks = "leasehold.v1.LockService", "Session"
}

service! {
    /// Observers.
    Elections = "leasehold.v1.ElectionService", "Observe"
}

/// A method that gives its calls to the scenario.
#[derive(Clone)]
pub(crate) struct Method(mpsc::UnboundedSender<Call>);

impl StreamingService<Vec<u8>> for Method {
    type Response = Vec<u8>;
    type ResponseStream = UnboundedReceiverStream<Result<Vec<u8>, Status>>;
    type Future = Ready<Result<Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, request: Request<Streaming<Vec<u8>>>) -> Self::Future {
        let (responses, stream) = mpsc::unbounded_channel();
        let call = Call {
            requests: request.into_inner(),
            responses,
        };
        // If the scenario is over, the stream ends at once.
        self.0.send(call).ok();
        ready(Ok(Response::new(UnboundedReceiverStream::new(stream))))
    }
}
