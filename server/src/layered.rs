//! Layers in front of all services, which differ only in what they do with a call; and what an answer keeps.

use std::{
    any::Any,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http_body::{Frame, SizeHint};
use pin_project_lite::pin_project;
use tonic::{body::Body, codegen::http::Response};
use tower::Layer;

/// Layer that puts a `T` in front of a service.
#[derive(Clone, Debug)]
pub struct Front<T>(pub(crate) T);

/// Service behind a [`Front`]. Each `T` implements tower's `Service` for it.
#[derive(Clone, Debug)]
pub struct Behind<T, S> {
    pub(crate) front: T,
    pub(crate) inner: S,
}

impl<T: Clone, S> Layer<S> for Front<T> {
    type Service = Behind<T, S>;

    fn layer(&self, inner: S) -> Behind<T, S> {
        Behind {
            front: self.0.clone(),
            inner,
        }
    }
}

/// Something that is kept for as long as an answer's body: a service puts it into the extensions of its answer.
#[derive(Clone)]
pub struct Kept {
    _what: Arc<dyn Any + Send + Sync>,
}

impl Kept {
    /// Keeps this.
    pub fn new(what: impl Any + Send + Sync) -> Self {
        let what = Arc::new(what);
        Self { _what: what }
    }

    /// Has the body of an answer keep what its extensions name. It stays there, for layers that replace the body.
    pub fn by_body(response: Response<Body>) -> Response<Body> {
        let Some(kept) = response.extensions().get::<Self>().cloned() else {
            return response;
        };
        response.map(|inner| Body::new(Keeping { inner, _kept: kept }))
    }
}

pin_project! {
    struct Keeping {
        #[pin]
        inner: Body,
        _kept: Kept,
    }
}

impl http_body::Body for Keeping {
    type Data = <Body as http_body::Body>::Data;
    type Error = <Body as http_body::Body>::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        self.project().inner.poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
