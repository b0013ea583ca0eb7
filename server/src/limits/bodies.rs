//! Timeout of request bodies, for calls that are never sent to the end.
//!
//! A client that sends the headers of a call and not the rest makes the coordinator keep what it has received. So a call of
//! one message must be complete within a bound; sessions and campaigns have rules of their own.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use http_body::{Body as _, Frame, SizeHint};
use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep};
use tonic::{Status, body::Body};

use crate::{
    methods::{Kind, Method},
    status::{Reason, Refusal},
};

/// Wraps a request body so that it fails if it is not complete in time.
///
/// On a stream of reflection, each message has this time. Sessions and campaigns bound their streams by themselves.
pub(super) fn in_time(method: Method, body: Body, patience: Duration) -> Body {
    let goes_on = method.kind == Kind::ClientStream;
    // An empty request is complete.
    if (goes_on && method.is_ours()) || body.is_end_stream() {
        return body;
    }
    Body::new(InTime {
        inner: body,
        patience,
        goes_on,
        over: tokio::time::sleep(patience),
    })
}

pin_project! {
    struct InTime {
        #[pin]
        inner: Body,
        patience: Duration,
        goes_on: bool,
        // The timer costs nothing until it is polled.
        #[pin]
        over: Sleep,
    }
}

impl http_body::Body for InTime {
    type Data = <Body as http_body::Body>::Data;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Status>>> {
        let mut this = self.project();
        if let Poll::Ready(frame) = this.inner.poll_frame(cx) {
            if *this.goes_on {
                this.over.as_mut().reset(Instant::now() + *this.patience);
            }
            return Poll::Ready(frame);
        }
        ready!(this.over.poll(cx));
        let refusal = Refusal::new(
            Reason::RequestTimeout,
            format!(
                "the request was not complete within {:?}; nothing was done: send it at once",
                this.patience
            ),
        );
        Poll::Ready(Some(Err(refusal.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
