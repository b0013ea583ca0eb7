//! Rest of a request that is answered before its end.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use tokio::time::timeout;
use tonic::{Status, body::Body, codegen::http::Request};

/// Longest time for which an answer waits for the rest of its request.
const PATIENCE: Duration = Duration::from_millis(500);

/// Body of a request, which goes back to the [`Rest`] when it is dropped before its end.
#[derive(Debug)]
struct Lent {
    body: Body,
    is_over: bool,
    rest: Rest,
}

/// Rest of a request's body. Clients that still write miss the answer: a connection of HTTP/1 whose request is not read to its end
/// can't be used again and is closed, and some, such as curl, fail at the reset of a stream of HTTP/2.
#[derive(Clone, Debug, Default)]
pub(super) struct Rest(Arc<Mutex<Option<Body>>>);

/// Returns a request to read, and what will be left of it.
pub(super) fn lend(request: Request<Body>) -> (Request<Body>, Rest) {
    let rest = Rest::default();
    let request = request.map(|body| {
        Body::new(Lent {
            body,
            is_over: false,
            rest: rest.clone(),
        })
    });
    (request, rest)
}

impl Rest {
    /// Reads what is left, if nobody reads it any more: at most so many bytes, and not for long.
    pub(super) async fn read(self, limit: usize) {
        let left = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut body) = left else { return };
        let read = async {
            let mut bytes = 0;
            while let Some(Ok(frame)) = body.frame().await {
                bytes += frame.data_ref().map_or(0, Bytes::len);
                if bytes > limit {
                    break;
                }
            }
        };
        // Then the connection is closed, or the stream reset.
        _ = timeout(PATIENCE, read).await;
    }
}

impl http_body::Body for Lent {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        self.is_over |= matches!(polled, Poll::Ready(None | Some(Err(_))));
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if !self.is_over {
            let body = std::mem::take(&mut self.body);
            let mut rest = self.rest.0.lock().unwrap_or_else(PoisonError::into_inner);
            *rest = Some(body);
        }
    }
}
