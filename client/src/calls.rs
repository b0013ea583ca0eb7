//! Calls without a session: single calls, and streams of events.

use std::{
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fastrand::Rng;
use tokio::{
    runtime::Handle,
    time::{Instant, timeout_at},
};
use tonic::{Request, Status};

use crate::{
    clock::Moment,
    error::{ConnectError, Failure},
    session::{At, Route, find},
    settings::Settings,
    transport::Channel,
};

/// Time limit of one call.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest time of any call: no coordinator lets one wait for longer than 365 days. Clocks can't count much further.
pub(crate) const LONGEST_CALL: Duration = Duration::from_secs(366 * 24 * 3600);

/// Channels for calls, which connect when they are first used, and again when needed. Cheap to clone.
///
/// All calls go to one coordinator, until that can't be reached or its connection breaks; then to another, as sessions do: each address
/// of a name is one. The first is an endpoint as a whole, at whichever of its addresses is reached first.
#[derive(Clone, Debug)]
pub(crate) struct Calls(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    settings: Arc<Settings>,
    current: Mutex<Current>,
}

/// Coordinator that calls go to at present.
#[derive(Debug)]
struct Current {
    place: Place,
    /// Version of the certificates with which the channels were made. A connection keeps them for as long as it lives.
    certificates: u64,
    route: Route,
}

/// Coordinator, with the channels to it.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    at: At,
    pub(crate) single: Channel,
    pub(crate) watching: Channel,
}

/// Attempts of one call.
#[derive(Default)]
struct Tried(Vec<(At, bool)>);

impl Tried {
    fn add(&mut self, at: At, failure: &Failure) {
        self.0.push((at, failure.is_unsent()));
    }

    /// Returns whether the attempts have reached this address, the only one if `is_only`. One at an endpoint as a whole has tried all
    /// its addresses if it could not connect, and otherwise one that is not known.
    fn has(&self, candidate: &At, is_only: bool) -> bool {
        self.0.iter().any(|(at, is_unsent)| {
            let is_whole = at.address.is_none() && (*is_unsent || is_only);
            at.endpoint == candidate.endpoint && (at.address == candidate.address || is_whole)
        })
    }
}

impl Calls {
    /// Makes the channels. Must be called within a Tokio runtime.
    pub(crate) fn new(settings: Settings) -> Result<Self, ConnectError> {
        // Before the files are read for the first connection: a change in between is noticed.
        let certificates = settings.credentials.certificates();
        let mut places = Vec::new();
        for url in settings.endpoints.urls() {
            places.push(Place::new(&settings, At::endpoint(url))?);
        }
        // At random, so that many clients spread over all coordinators.
        let Some(place) = fastrand::choice(places) else {
            return Err(ConnectError::InvalidEndpoint {
                endpoint: settings.endpoints.to_string(),
                source: None,
            });
        };
        let route = Route::new(&settings, Rng::new());
        Ok(Self(Arc::new(Inner {
            settings: Arc::new(settings),
            current: Mutex::new(Current {
                place,
                certificates,
                route,
            }),
        })))
    }

    pub(crate) fn settings(&self) -> &Arc<Settings> {
        &self.0.settings
    }

    /// Returns the channel for single calls.
    pub(crate) fn channel(&self) -> Channel {
        self.place().single
    }

    /// Makes a call within [`CALL_TIMEOUT`]; see [`Calls::call_within`].
    pub(crate) async fn call<T, F>(
        &self,
        repeats: Repeats,
        call: impl Fn(Channel) -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Status>>,
    {
        self.call_within(CALL_TIMEOUT, repeats, call).await
    }

    /// Makes a call within this time: at each coordinator, one after the other, as long as the connection to one fails. A call that must
    /// not be carried out twice is repeated only if it can't have been sent.
    pub(crate) async fn call_within<T, F>(
        &self,
        limit: Duration,
        repeats: Repeats,
        call: impl Fn(Channel) -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let deadline = Instant::now() + limit.min(LONGEST_CALL);
        let mut tried = Tried::default();
        let mut place = self.place();
        loop {
            let endpoint = place.single.endpoint();
            let mut attempt = pin!(call(place.single.clone()));
            let silent = Failure::unanswered(endpoint, limit);
            let half = deadline.saturating_duration_since(Instant::now()) / 2;
            let mut next = None;
            let mut answer = timeout_at(deadline - half, &mut attempt).await;
            if answer.is_err() {
                // What does not answer leaves time for the others, if there are any.
                if repeats == Repeats::Freely {
                    let at = (place.at.clone(), false);
                    next = self
                        .go_on(&place, &Tried([&tried.0[..], &[at]].concat()), &silent)
                        .await;
                }
                if next.is_none() {
                    answer = timeout_at(deadline, attempt).await;
                }
            }
            let failure = match answer {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(status)) => Failure::at(endpoint, status),
                Err(_) => silent,
            };
            tried.add(place.at.clone(), &failure);
            let draining = failure.is_draining();
            if next.is_none() && (failure.is_transport() || draining) {
                next = self.go_on(&place, &tried, &failure).await;
            }
            let may_repeat = repeats == Repeats::Freely || draining || failure.is_unsent();
            match next {
                Some(next) if may_repeat && Instant::now() < deadline => place = next,
                _ => return Err(failure),
            }
        }
    }

    /// Returns the coordinator in use. Its channels are made anew when the certificates have been replaced, since what is still open
    /// shows the former one. Streams on the former channels go on.
    pub(crate) fn place(&self) -> Place {
        let settings = &self.0.settings;
        let certificates = settings.credentials.certificates();
        let mut current = self.current();
        // Outside of a runtime none can be made, and a call that needs one comes later.
        if current.certificates != certificates
            && Handle::try_current().is_ok()
            && let Ok(anew) = Place::new(settings, current.place.at.clone())
        {
            current.place = anew;
            current.certificates = certificates;
        }
        current.place.clone()
    }

    /// Sends later streams to another coordinator, because the one at this place failed.
    pub(crate) async fn leave(&self, place: &Place, failure: &Failure) {
        let mut tried = Tried::default();
        tried.add(place.at.clone(), failure);
        self.go_on(place, &tried, failure).await;
    }

    /// Sends later calls to another coordinator than the one at this place, which failed: to one that was not tried. Returns that
    /// one, if there is one.
    async fn go_on(&self, from: &Place, tried: &Tried, failure: &Failure) -> Option<Place> {
        // Another call may have gone on already.
        let present = self.place();
        if present.at != from.at && !tried.has(&present.at, false) {
            return Some(present);
        }
        let found = find(self.0.settings.clone()).await;
        let candidates: Vec<_> = found.into_iter().flatten().collect();
        let is_only = candidates.len() == 1;
        let now = Moment::now();
        let mut current = self.current();
        current.route.failed(from.at.candidate(), now);
        current.route.begin_round(candidates, now);
        let others = std::iter::from_fn(|| current.route.next());
        let next = others.map(At::from).find(|at| !tried.has(at, is_only))?;
        let place = Place::new(&self.0.settings, next).ok()?;
        current.place = place.clone();
        tracing::debug!("calls go to another coordinator: {failure}");
        Some(place)
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        let current = self.0.current.lock();
        current.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    fn new(settings: &Settings, at: At) -> Result<Self, ConnectError> {
        let (url, address) = (&*at.endpoint, at.address);
        Ok(Self {
            single: settings.call_target(url, address)?.connect_lazy(),
            // A stream whose messages are not read never delays another one, nor a single call.
            watching: settings.watch_target(url, address)?.connect_lazy(),
            at,
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

#[cfg(test)]
mod tests {
    use leasehold_tests::{Coordinator, FaultProxy};
    use tokio::net::TcpListener;

    use super::*;
    use crate::proto::v1::{GetStatusRequest, admin_service_client::AdminServiceClient};

    async fn ask(channel: Channel) -> Result<(), Status> {
        let mut stub = AdminServiceClient::new(channel);
        stub.get_status(limited(GetStatusRequest {})).await?;
        Ok(())
    }

    /// Makes calls at a name of two addresses, of which only the second has a coordinator.
    async fn call_beside(is_silent: bool) {
        let coordinator = Coordinator::in_process();
        let upstream = coordinator.endpoint();
        let upstream = upstream.trim_start_matches("http://").parse().unwrap();
        let proxy = FaultProxy::start_at([127, 0, 0, 2].into(), upstream).await;
        let port = proxy.address().port();
        let other = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        let other = tokio::spawn(async move {
            let mut accepted = Vec::new();
            loop {
                let (stream, _) = other.accept().await.unwrap();
                accepted.extend(is_silent.then_some(stream));
            }
        });
        let settings = Settings::new(format!("http://localhost:{port}").into());
        let calls = Calls::new(settings).unwrap();
        let limit = Duration::from_secs(8);
        calls
            .call_within(limit, Repeats::Freely, ask)
            .await
            .unwrap();
        // Later ones go there at once.
        other.abort();
        calls.call(Repeats::Unsent, ask).await.unwrap();
    }

    #[tokio::test]
    async fn a_call_goes_on_to_the_next_address_of_a_name() {
        call_beside(false).await;
    }

    #[tokio::test]
    async fn an_address_that_is_silent_leaves_time_for_the_next() {
        call_beside(true).await;
    }
}
