//! Calls without a session: single calls, and streams of events.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tonic::{Request, Status};

use crate::{
    error::{ConnectError, Failure},
    settings::Settings,
    transport::Channel,
};

/// How long one call may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// The channels for it, which connect when they are first used, and again when needed. Cheap to clone.
///
/// All calls go to one coordinator, until that can't be reached or its connection breaks; then to the next.
#[derive(Clone, Debug)]
pub(crate) struct Calls(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    settings: Arc<Settings>,
    /// One for each endpoint. At least one.
    channels: Vec<Channels>,
    /// How often they have moved on; that, round the endpoints, is the one in use.
    moved: AtomicUsize,
}

#[derive(Debug)]
struct Channels {
    single: Channel,
    watching: Channel,
}

impl Calls {
    /// Must be called within a Tokio runtime.
    pub(crate) fn new(settings: Settings) -> Result<Self, ConnectError> {
        let channels = settings.endpoints.urls().iter().map(|url| {
            Ok(Channels {
                single: settings.call_target(url)?.connect_lazy(),
                watching: settings.watch_target(url)?.connect_lazy(),
            })
        });
        let channels: Vec<_> = channels.collect::<Result<_, ConnectError>>()?;
        if channels.is_empty() {
            return Err(ConnectError::InvalidEndpoint {
                endpoint: settings.endpoints.to_string(),
                source: None,
            });
        }
        // Anywhere, so that many clients spread over all coordinators.
        let moved = AtomicUsize::new(fastrand::usize(..channels.len()));
        Ok(Self(Arc::new(Inner {
            settings: Arc::new(settings),
            channels,
            moved,
        })))
    }

    pub(crate) fn settings(&self) -> &Arc<Settings> {
        &self.0.settings
    }

    /// For single calls.
    pub(crate) fn channel(&self) -> Channel {
        self.at(self.moved()).single.clone()
    }

    /// For streams that tell what happens. One that is not read never holds up another, nor a single call.
    pub(crate) fn watching(&self) -> Channel {
        self.at(self.moved()).watching.clone()
    }

    /// Makes a call, at the next coordinator if the connection to one fails. What must not be carried out twice is
    /// repeated only if it can't have been sent.
    pub(crate) async fn call<T, F>(
        &self,
        repeats: Repeats,
        call: impl Fn(Channel) -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let mut left = self.0.channels.len();
        loop {
            let moved = self.moved();
            let channel = self.at(moved).single.clone();
            let failure = match call(channel.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(status) => Failure::at(channel.endpoint(), status),
            };
            let draining = failure.is_draining();
            if !failure.is_transport() && !draining {
                return Err(failure);
            }
            self.move_on(moved, &failure);
            left -= 1;
            let may_repeat = repeats == Repeats::Freely || draining || failure.is_unsent();
            if left == 0 || !may_repeat {
                return Err(failure);
            }
        }
    }

    /// How often it has moved on, to be told to [`Calls::move_on`] when what was begun then fails.
    pub(crate) fn moved(&self) -> usize {
        self.0.moved.load(Ordering::Relaxed)
    }

    /// What was begun when it had moved on so often has failed, by its connection: whatever comes goes to the next.
    pub(crate) fn move_on(&self, moved: usize, failure: &Failure) {
        let next = moved.wrapping_add(1);
        let order = Ordering::Relaxed;
        // Somebody else may have moved it on already.
        let swapped = self.0.moved.compare_exchange(moved, next, order, order);
        if self.0.channels.len() > 1 && swapped.is_ok() {
            tracing::debug!("calls go to the next coordinator: {failure}");
        }
    }

    fn at(&self, moved: usize) -> &Channels {
        &self.0.channels[moved % self.0.channels.len()]
    }
}

/// Whether a call may be repeated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Repeats {
    /// It changes nothing.
    Freely,
    /// Only if it was not sent.
    Unsent,
}

/// A single call, which is given up after a while.
pub(crate) fn limited<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(CALL_TIMEOUT);
    request
}
