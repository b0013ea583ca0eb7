//! Streams of events, which the client opens again whenever they end.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures_util::Stream;
use tokio::time::sleep;
use tonic::{Response, Status, Streaming};

use crate::{
    calls::{Calls, Place},
    clock::Moment,
    error::{Failure, FailureKind},
    pauses::Pauses,
    transport::Channel,
};

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type Opening<M> = BoxFuture<Result<Response<Streaming<M>>, Status>>;

/// Stream of messages that outlives its connections, and the coordinator that serves it. It asks for nothing before it is
/// polled; dropping it ends the call.
pub(crate) struct Feed<M> {
    calls: Calls,
    open: Box<dyn Fn(Channel) -> Opening<M> + Send>,
    /// The coordinator that was asked for it.
    place: Place,
    pauses: Pauses,
    state: State<M>,
    /// Set once a message has come since it was asked for.
    told: bool,
    /// Set once a message has ever come.
    was_told: bool,
    /// The failure that keeps messages from coming, if there is one.
    interruption: Option<Failure>,
}

enum State<M> {
    /// Waiting to try again.
    Pausing(BoxFuture<()>),
    /// Asking; the head of the answer has not come.
    Opening(Opening<M>),
    Live(Box<Streaming<M>>),
    Ended,
}

/// Item of a feed.
pub(crate) enum News<M> {
    Message(M),
    /// The stream broke, or could not be opened. The feed tries again.
    Broken(Failure),
    /// The coordinator refused the stream for good. The last item.
    Refused(Failure),
}

impl<M> Feed<M> {
    /// Makes a feed of the stream that `open` asks for.
    pub(crate) fn new<F>(calls: &Calls, open: impl Fn(Channel) -> F + Send + 'static) -> Self
    where
        F: Future<Output = Result<Response<Streaming<M>>, Status>> + Send + 'static,
    {
        let open = Box::new(move |channel| -> Opening<M> { Box::pin(open(channel)) });
        let place = calls.place();
        Self {
            state: State::Opening(open(place.watching.clone())),
            place,
            open,
            pauses: Pauses::new(calls.settings()),
            calls: calls.clone(),
            told: false,
            was_told: false,
            interruption: None,
        }
    }

    /// Returns the reason for which no events come at present; `None` while they come, and before the first attempt has failed.
    pub(crate) fn interruption(&self) -> Option<&Failure> {
        self.interruption.as_ref()
    }

    pub(crate) fn poll_news(&mut self, cx: &mut Context<'_>) -> Poll<Option<News<M>>> {
        loop {
            match &mut self.state {
                State::Pausing(pause) => {
                    ready!(pause.as_mut().poll(cx));
                    self.place = self.calls.place();
                    self.state = State::Opening((self.open)(self.place.watching.clone()));
                }
                State::Opening(opening) => match ready!(opening.as_mut().poll(cx)) {
                    Ok(response) => {
                        self.pauses.opened(Moment::now());
                        self.state = State::Live(Box::new(response.into_inner()));
                    }
                    Err(status) => return Poll::Ready(Some(self.ended(status))),
                },
                State::Live(stream) => {
                    let status = match ready!(Pin::new(&mut **stream).poll_next(cx)) {
                        Some(Ok(message)) => {
                            self.told = true;
                            self.interruption = None;
                            return Poll::Ready(Some(News::Message(message)));
                        }
                        Some(Err(status)) => status,
                        None => Status::unavailable(format!(
                            "the coordinator at {} ended the stream",
                            self.place.watching.endpoint()
                        )),
                    };
                    return Poll::Ready(Some(self.ended(status)));
                }
                State::Ended => return Poll::Ready(None),
            }
        }
    }

    fn ended(&mut self, status: Status) -> News<M> {
        let failure = Failure::at(self.place.watching.endpoint(), status);
        // A client that received messages was known, and may be again with a token that was replaced meanwhile.
        let was_told = std::mem::take(&mut self.told);
        let may_be_known = failure.kind() == FailureKind::Unauthenticated && was_told;
        self.was_told |= was_told;
        // The only endpoint is no coordinator's, and never was.
        let is_wrong = (failure.is_mismatch() || failure.is_tls())
            && !self.was_told
            && self.calls.settings().endpoints.urls().len() == 1;
        if is_wrong || is_permanent(failure.kind()) && !may_be_known {
            self.state = State::Ended;
            return News::Refused(failure);
        }
        tracing::debug!("the stream of events broke: {failure}");
        let asked = failure.retry_after();
        let pause = self.pauses.pause_as_asked(Moment::now(), asked);
        let (calls, place, reason) = (self.calls.clone(), self.place.clone(), failure.clone());
        self.state = State::Pausing(Box::pin(async move {
            // Another coordinator may serve this stream too.
            calls.leave(&place, &reason).await;
            sleep(pause).await;
        }));
        self.interruption = Some(failure.clone());
        News::Broken(failure)
    }
}

impl<M> fmt::Debug for Feed<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed")
            .field("interruption", &self.interruption)
            .finish_non_exhaustive()
    }
}

/// Returns whether asking again would be answered in the same way. What a broken transport says is none of these, and neither
/// is anything that a coordinator says while it, or its store, is in trouble.
fn is_permanent(kind: FailureKind) -> bool {
    matches!(
        kind,
        FailureKind::InvalidArgument
            | FailureKind::NotFound
            | FailureKind::AlreadyExists
            | FailureKind::PermissionDenied
            | FailureKind::Unauthenticated
            | FailureKind::FailedPrecondition
            | FailureKind::OutOfRange
            | FailureKind::Unimplemented
    )
}
