//! Calls without a session: single calls, and streams of events.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::runtime::Handle;
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
/// All calls go to one coordinator, until that can't be reached or its connection breaks; then to the next in an order of this
/// client's own.
#[derive(Clone, Debug)]
pub(crate) struct Calls(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    settings: Arc<Settings>,
    /// Indices of the endpoints in the order in which calls move on; at least one. It is random, so that many clients spread over
    /// all coordinators, and those of one that goes away over all others.
    order: Vec<usize>,
    made: Mutex<Made>,
    /// Number of times that the calls have moved on; modulo the number of endpoints, the place in the order of the one in use.
    moved: AtomicUsize,
}

/// Channels, made with the same certificates.
#[derive(Debug)]
struct Made {
    /// Version of the certificates. A connection keeps the one with which it was made for as long as it lives.
    certificates: u64,
    /// One for each endpoint.
    channels: Vec<Channels>,
}

#[derive(Clone, Debug)]
struct Channels {
    single: Channel,
    watching: Channel,
}

impl Calls {
    /// Makes the channels. Must be called within a Tokio runtime.
    pub(crate) fn new(settings: Settings) -> Result<Self, ConnectError> {
        let made = Made::new(&settings)?;
        let mut order: Vec<_> = (0..made.channels.len()).collect();
        if order.is_empty() {
            return Err(ConnectError::InvalidEndpoint {
                endpoint: settings.endpoints.to_string(),
                source: None,
            });
        }
        fastrand::shuffle(&mut order);
        Ok(Self(Arc::new(Inner {
            settings: Arc::new(settings),
            order,
            made: Mutex::new(made),
            moved: AtomicUsize::new(0),
        })))
    }

    pub(crate) fn settings(&self) -> &Arc<Settings> {
        &self.0.settings
    }

    /// Returns the channel for single calls.
    pub(crate) fn channel(&self) -> Channel {
        self.at(self.moved()).single
    }

    /// Returns the channel for streams of events. A stream whose messages are not read never delays another one, nor a single
    /// call.
    pub(crate) fn watching(&self) -> Channel {
        self.at(self.moved()).watching
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
        let mut left = self.0.order.len();
        loop {
            let moved = self.moved();
            let channel = self.at(moved).single;
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
        if self.0.order.len() > 1 && swapped.is_ok() {
            tracing::debug!("calls go to the next coordinator: {failure}");
        }
    }

    /// Returns the channels to the coordinator in use. They are made anew when the certificates have been replaced, since what is
    /// still open shows the former one. Streams on the former channels go on.
    fn at(&self, moved: usize) -> Channels {
        let settings = &self.0.settings;
        let mut made = self.0.made.lock().unwrap_or_else(PoisonError::into_inner);
        // Outside of a runtime none can be made, and a call that needs one comes later.
        if made.certificates != settings.credentials.certificates()
            && Handle::try_current().is_ok()
            && let Ok(anew) = Made::new(settings)
        {
            *made = anew;
        }
        let order = &self.0.order;
        made.channels[order[moved % order.len()]].clone()
    }
}

impl Made {
    fn new(settings: &Settings) -> Result<Self, ConnectError> {
        // Before the files are read for the first connection: a change in between is noticed.
        let certificates = settings.credentials.certificates();
        let channels = settings.endpoints.urls().iter().map(|url| {
            Ok(Channels {
                single: settings.call_target(url, None)?.connect_lazy(),
                watching: settings.watch_target(url)?.connect_lazy(),
            })
        });
        Ok(Self {
            certificates,
            channels: channels.collect::<Result<_, ConnectError>>()?,
        })
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
