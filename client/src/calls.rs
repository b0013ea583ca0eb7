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

/// Time limit of one call.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Channels for calls, which connect when they are first used, and again when needed. Cheap to clone.
///
/// All calls go to one coordinator, until that can't be reached or its connection breaks; then to the next.
#[derive(Clone, Debug)]
pub(crate) struct Calls(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    settings: Arc<Settings>,
    /// One for each endpoint, and at least one.
    channels: Vec<Channels>,
    /// Number of times that the calls have moved on; modulo the number of channels, the index of the one in use.
    moved: AtomicUsize,
}

#[derive(Debug)]
struct Channels {
    single: Channel,
    watching: Channel,
}

impl Calls {
    /// Makes the channels. Must be called within a Tokio runtime.
    pub(crate) fn new(settings: Settings) -> Result<Self, ConnectError> {
        let channels = settings.endpoints.urls().iter().map(|url| {
            Ok(Channels {
                single: settings.call_target(url, None)?.connect_lazy(),
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
        // Each client begins at a random one, so that many clients spread over all coordinators.
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

    /// Returns the channel for single calls.
    pub(crate) fn channel(&self) -> Channel {
        self.at(self.moved()).single.clone()
    }

    /// Returns the channel for streams of events. A stream whose messages are not read never delays another one, nor a single
    /// call.
    pub(crate) fn watching(&self) -> Channel {
        self.at(self.moved()).watching.clone()
    }

    /// Makes a call, at the next coordinator if the connection to one fails. A call that must not be carried out twice is
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

    /// Returns how often the calls have moved on, for [`Calls::move_on`] if a call that begins now fails.
    pub(crate) fn moved(&self) -> usize {
        self.0.moved.load(Ordering::Relaxed)
    }

    /// Sends later calls to the next coordinator, because the connection of one failed that began when they had moved on so
    /// often.
    pub(crate) fn move_on(&self, moved: usize, failure: &Failure) {
        let next = moved.wrapping_add(1);
        let order = Ordering::Relaxed;
        // Another call may have moved them on already.
        let swapped = self.0.moved.compare_exchange(moved, next, order, order);
        if self.0.channels.len() > 1 && swapped.is_ok() {
            tracing::debug!("calls go to the next coordinator: {failure}");
        }
    }

    fn at(&self, moved: usize) -> &Channels {
        &self.0.channels[moved % self.0.channels.len()]
    }
}

/// Rule for repeating a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Repeats {
    /// The call changes nothing.
    Freely,
    /// The call may be repeated only if it was not sent.
    Unsent,
}

/// Returns the request of a single call, with its time limit.
pub(crate) fn limited<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(CALL_TIMEOUT);
    request
}
