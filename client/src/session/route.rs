//! Choice of the coordinator that a session tries next.

use std::{
    collections::{HashMap, VecDeque},
    io,
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use fastrand::Rng;
use futures_util::future::join_all;
use tokio::{net::lookup_host, time::timeout};
use tonic::transport::Uri;

use crate::{clock::Moment, endpoints::DEFAULT_PORT, error::ConnectError, settings::Settings};

/// Time for which a candidate that failed is tried last.
const TROUBLED: Duration = Duration::from_secs(10);

/// One coordinator, as far as this client can tell: one address of an endpoint.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Candidate {
    pub(crate) endpoint: Arc<str>,
    pub(crate) address: SocketAddr,
}

/// Endpoint, or one coordinator at one of its addresses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct At {
    pub(crate) endpoint: Arc<str>,
    /// `None` for the endpoint as a whole.
    pub(crate) address: Option<SocketAddr>,
}

impl At {
    pub(crate) fn endpoint(url: &str) -> Self {
        Self {
            endpoint: url.into(),
            address: None,
        }
    }

    pub(crate) fn candidate(&self) -> Option<Candidate> {
        let endpoint = self.endpoint.clone();
        self.address.map(|address| Candidate { endpoint, address })
    }
}

impl From<Candidate> for At {
    fn from(Candidate { endpoint, address }: Candidate) -> Self {
        Self {
            endpoint,
            address: Some(address),
        }
    }
}

/// Addresses of the endpoints at present, with an error for each that has none.
pub(crate) type Found = Vec<Result<Candidate, ConnectError>>;

/// Goes round the candidates: each is tried once in a round, in an order of its own, and those that failed lately come last.
#[derive(Debug)]
pub(crate) struct Route {
    random: Rng,
    round: VecDeque<Candidate>,
    failed_at: HashMap<Candidate, Moment>,
    several: bool,
}

impl Route {
    pub(crate) fn new(settings: &Settings, random: Rng) -> Self {
        Self {
            random,
            round: VecDeque::new(),
            failed_at: HashMap::new(),
            several: settings.endpoints.urls().len() > 1,
        }
    }

    /// Returns whether there is more than one to choose from.
    pub(super) fn is_several(&self) -> bool {
        self.several
    }

    pub(crate) fn begin_round(&mut self, mut candidates: Vec<Candidate>, now: Moment) {
        self.several |= candidates.len() > 1;
        self.failed_at
            .retain(|_, failed_at| now.since(*failed_at) < TROUBLED);
        // In a common order, all clients of a coordinator that goes away would move to the same one.
        self.random.shuffle(&mut candidates);
        // Of those that failed, the one that failed longest ago comes first.
        candidates.sort_by_key(|candidate| self.failed_at.get(candidate).copied());
        self.round = candidates.into();
    }

    /// Returns the next candidate of this round; `None` when the round is over.
    pub(crate) fn next(&mut self) -> Option<Candidate> {
        self.round.pop_front()
    }

    /// Notes that a candidate, if it is known, could not be reached, did not serve, or is to be left.
    pub(crate) fn failed(&mut self, candidate: Option<Candidate>, now: Moment) {
        self.failed_at
            .extend(candidate.map(|candidate| (candidate, now)));
    }
}

/// Looks up all names at once.
pub(crate) async fn find(settings: Arc<Settings>) -> Found {
    let urls = settings.endpoints.urls().iter();
    let found = join_all(urls.map(|url| addresses(url, settings.connect_timeout))).await;
    found.into_iter().flatten().collect()
}

/// Looks up the addresses that one endpoint stands for.
pub(crate) async fn addresses(url: &str, limit: Duration) -> Found {
    let endpoint: Arc<str> = url.into();
    let unreachable = |source| ConnectError::Unreachable {
        endpoint: url.to_owned(),
        source,
    };
    let uri = match Uri::try_from(url) {
        Ok(uri) => uri,
        Err(error) => return vec![Err(unreachable(error.into()))],
    };
    let host = uri.host().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let port = uri.port_u16().unwrap_or(DEFAULT_PORT);
    match timeout(limit, lookup(host, port)).await {
        Ok(Ok(addresses)) => addresses
            .into_iter()
            .map(|address| {
                Ok(Candidate {
                    endpoint: endpoint.clone(),
                    address,
                })
            })
            .collect(),
        Ok(Err(error)) => vec![Err(unreachable(error.into()))],
        Err(_) => vec![Err(ConnectError::TimedOut {
            endpoint: url.to_owned(),
            after: limit,
        })],
    }
}

/// Looks up a name. In tests of this crate, `localhost` has a second address.
async fn lookup(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let mut found: Vec<_> = lookup_host((host, port)).await?.collect();
    if cfg!(test) && host == "localhost" {
        found.push(SocketAddr::from(([127, 0, 0, 2], port)));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::from_nanos(seconds * 1_000_000_000)
    }

    fn candidates() -> Vec<Candidate> {
        let candidate = |port| Candidate {
            endpoint: "http://locks.example".into(),
            address: SocketAddr::from(([127, 0, 0, 1], port)),
        };
        (1..=3).map(candidate).collect()
    }

    fn round(route: &mut Route, now: u64) -> Vec<u16> {
        route.begin_round(candidates(), at(now));
        std::iter::from_fn(|| route.next())
            .map(|candidate| candidate.address.port())
            .collect()
    }

    fn route(seed: u64) -> Route {
        let settings = Settings::new("http://locks.example".into());
        Route::new(&settings, Rng::with_seed(seed))
    }

    #[test]
    fn what_failed_lately_comes_last() {
        let mut route = route(1);
        assert!(!route.is_several());
        route.failed(candidates().into_iter().next(), at(1));
        route.failed(candidates().into_iter().nth(1), at(2));
        for _ in 0..10 {
            assert_eq!(round(&mut route, 3), [3, 1, 2]);
        }
        assert!(route.is_several());
        // The first of the two has been long enough ago.
        assert_eq!(round(&mut route, 11)[2], 2);
        let mut all = round(&mut route, 30);
        all.sort_unstable();
        assert_eq!(all, [1, 2, 3]);
    }

    #[test]
    fn clients_of_a_coordinator_that_goes_away_spread_over_the_others() {
        let mut moves = HashMap::new();
        for seed in 0..600 {
            let mut route = route(seed);
            let from = round(&mut route, 0)[0];
            route.failed(candidates().into_iter().nth(usize::from(from) - 1), at(1));
            let order = round(&mut route, 1);
            assert_eq!(order[2], from);
            *moves.entry((from, order[0])).or_insert(0) += 1;
        }
        let counts: Vec<u32> = moves.into_values().collect();
        let least = *counts.iter().min().unwrap();
        assert!(counts.len() == 6 && counts.iter().all(|count| *count < 2 * least));
    }

    #[tokio::test]
    async fn an_address_stands_for_itself_and_a_name_for_its_addresses() {
        let settings = Settings::new("http://127.0.0.1:7420,https://[::1],http://localhost".into());
        let found = find(Arc::new(settings)).await;
        let found: Vec<_> = found.into_iter().map(Result::unwrap).collect();
        assert_eq!(found[0].address.to_string(), "127.0.0.1:7420");
        assert_eq!(found[1].address.to_string(), "[::1]:7420");
        assert!(found.len() > 2);
        for candidate in &found[2..] {
            assert!(candidate.address.ip().is_loopback());
            assert_eq!(candidate.address.port(), 7420);
            assert_eq!(&*candidate.endpoint, "http://localhost:7420");
        }
    }
}
