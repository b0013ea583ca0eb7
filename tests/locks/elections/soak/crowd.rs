//! Many elections at once.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use leasehold_tests::{RawCandidate, RawObserver, Site, raw, report, site::TTL};
use tonic::transport::Channel;

use crate::elections::history::History;

const ELECTIONS: usize = 100;
const CANDIDATES: usize = 3;
/// Elections that share their connections.
const SHARED: usize = 25;
/// Long enough for all of them on a busy machine.
const LIMIT: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_elections_at_once_are_all_led_by_one_after_the_other() {
    let site = Site::redis(2).await;
    let mut connections = Vec::new();
    for _ in 0..ELECTIONS / SHARED {
        let (one, other) = (site.endpoint(0), site.endpoint(1));
        connections.push([raw::connect(&one).await, raw::connect(&other).await]);
    }
    let began = Instant::now();
    join_all((0..ELECTIONS).map(|number| election(number, &connections[number / SHARED]))).await;
    report(format!(
        "{ELECTIONS} elections with {CANDIDATES} leaders each, one after the other, took {:?}",
        began.elapsed()
    ));
    drop(connections);
    site.nothing_is_left().await;
}

async fn election(number: usize, channels: &[Channel; 2]) {
    let name = format!("crowd/{number}");
    let mut observer = RawObserver::observe(channels[number % 2].clone(), &name).await;
    assert_eq!(observer.next(LIMIT).await.token(), None);
    // All at once, whoever comes first.
    let candidates = (0..CANDIDATES).map(|at| {
        let value = format!("candidate {at}");
        let (channel, name) = (channels[at % 2].clone(), &name);
        async move {
            let candidate = RawCandidate::campaign(channel, name, value.as_bytes(), 3 * TTL).await;
            (candidate, value)
        }
    });
    let mut candidates = join_all(candidates).await;
    candidates.sort_by_key(|(candidate, _)| candidate.campaigning().position);
    let places = candidates
        .iter()
        .map(|(candidate, _)| candidate.campaigning().position);
    assert!(places.eq(0..CANDIDATES as u64), "{candidates:?}");
    let mut history = History::default();
    for (mut candidate, value) in candidates {
        let term = candidate.elected(LIMIT).await;
        history.elected(term.token, value);
        if history.len() == CANDIDATES {
            // It may have skipped those before, which were gone too soon, but not one that stays.
            observer.leads(term.token, LIMIT).await;
        }
        assert!(candidate.resign().await);
    }
    assert_eq!(observer.next(LIMIT).await.token(), None);
    history.was_seen_by(&name, observer.log());
}
