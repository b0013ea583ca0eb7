//! Body of an answer, of whatever protocol.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use pin_project_lite::pin_project;
use tonic::{body::Body, codegen::StdError};

pin_project! {
    /// Body of an answer: the service's own for gRPC, and a translated one for other protocols.
    #[derive(Debug)]
    pub struct Answer<B> {
        #[pin]
        kind: Kind<B>,
    }
}

pin_project! {
    #[project = KindProjection]
    #[derive(Debug)]
    enum Kind<B> {
        Grpc { #[pin] body: B },
        Other { body: Body },
    }
}

impl<B> Answer<B> {
    pub(super) fn grpc(body: B) -> Self {
        let kind = Kind::Grpc { body };
        Self { kind }
    }

    pub(super) fn other(body: Body) -> Self {
        let kind = Kind::Other { body };
        Self { kind }
    }
}

impl<B> http_body::Body for Answer<B>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<StdError>,
{
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        match self.project().kind.project() {
            KindProjection::Grpc { body } => body.poll_frame(cx).map_err(Into::into),
            KindProjection::Other { body } => Pin::new(body).poll_frame(cx).map_err(Into::into),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Grpc { body } => body.is_end_stream(),
            Kind::Other { body } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Grpc { body } => body.size_hint(),
            Kind::Other { body } => body.size_hint(),
        }
    }
}
