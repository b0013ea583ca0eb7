//! Tests of observers: the messages that they receive, and their times.

use std::time::{Duration, Instant};

use leasehold_proto::v1::{ObserveRequest, election_service_client::ElectionServiceClient};
use leasehold_tests::{RawObserver, Site, audit, raw::PROMPT, raw::Seen};
use tonic::transport::Endpoint;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_election_that_nobody_knows_has_no_leader_and_then_its_first() {
    const ELECTION: &str = "observing/unknown";
    let site = Site::redis(2).await;
    let mut observers = Vec::new();
    for at in 0..2 {
        assert_eq!(site.leader(at, ELECTION).await, None);
        let mut observer = site.observer(at, ELECTION).await;
        let first = observer.next(PROMPT).await;
        assert_eq!((first.token(), first.skipped), (None, false));
        observers.push(observer);
    }
    // To look is not to make anything.
    let mut redis = site.plain().await;
    let keys = audit::keys(&mut redis, "*").await.unwrap();
    assert!(keys.is_empty(), "{keys:?}");

    let mut candidate = site.candidate(0, ELECTION, b"first").await;
    let term = candidate.elected(PROMPT).await;
    for (at, observer) in observers.iter_mut().enumerate() {
        let seen = observer.next(PROMPT).await;
        assert_eq!((seen.token(), seen.skipped), (Some(term.token), false));
        assert_eq!(seen.value(), Some(&b"first"[..]));
        assert_eq!(site.leader(at, ELECTION).await, seen.leader);
    }
    assert!(candidate.resign().await);
    for observer in &mut observers {
        let seen = observer.next(PROMPT).await;
        assert_eq!((seen.token(), seen.skipped), (None, false));
    }
    drop(observers);
    site.nothing_is_left().await;
}

/// Returns the numbers that a leader proclaimed, as an observer saw them. Checks that they rise, and that the observer reported
/// each gap.
fn numbers(log: &[Seen], token: i64) -> Vec<u32> {
    let mut last: Option<u32> = None;
    let mut numbers = Vec::new();
    for seen in log.iter().filter(|seen| seen.leader.is_some()) {
        assert_eq!(seen.token(), Some(token));
        let number = seen.value().unwrap()[..4].try_into();
        let number = u32::from_be_bytes(number.unwrap());
        if let Some(last) = last {
            assert!(number > last, "{number} after {last}");
            assert!(number == last + 1 || seen.skipped, "{last}, then {number}");
        }
        last = Some(number);
        numbers.push(number);
    }
    numbers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proclaimed_values_are_seen_by_all_in_order() {
    const ELECTION: &str = "observing/proclaimed";
    /// First one at a time, so that each is seen, then as fast as it goes.
    const STEPS: u32 = 20;
    const VALUES: u32 = 300;
    let site = Site::redis(2).await;
    let mut observers: Vec<RawObserver> = Vec::new();
    for at in 0..6 {
        let mut observer = site.observer(at, ELECTION).await;
        assert_eq!(observer.next(PROMPT).await.token(), None);
        observers.push(observer);
    }
    let mut leader = site.candidate(0, ELECTION, &0_u32.to_be_bytes()).await;
    let term = leader.elected(PROMPT).await;
    for observer in &mut observers {
        assert_eq!(observer.next(PROMPT).await.token(), Some(term.token));
    }
    for number in 1..=VALUES {
        leader.proclaim(&number.to_be_bytes()).await;
        for observer in observers.iter_mut().filter(|_| number <= STEPS) {
            let seen = observer.next(PROMPT).await;
            assert_eq!(seen.value(), Some(&number.to_be_bytes()[..]));
            assert!(!seen.skipped, "{seen:?}");
        }
    }
    let last = VALUES.to_be_bytes();
    for observer in &mut observers {
        observer
            .until(PROMPT, |seen| seen.value() == Some(&last[..]))
            .await;
        numbers(observer.log(), term.token);
    }
    assert!(leader.resign().await);
    drop(observers);
    site.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_observer_that_does_not_read_gets_the_newest_and_is_told_that_it_skipped() {
    const ELECTION: &str = "observing/slow";
    const VALUES: u32 = 100;
    let value = |number: u32| [&number.to_be_bytes()[..], &[7; 1000]].concat();
    let site = Site::redis(1).await;
    let mut leader = site.candidate(0, ELECTION, &value(0)).await;
    let term = leader.elected(PROMPT).await;
    // Its window holds few of them.
    let endpoint = Endpoint::from_shared(site.endpoint(0).to_owned()).unwrap();
    let window = endpoint.initial_stream_window_size(4096);
    let mut stub = ElectionServiceClient::new(window.connect().await.unwrap());
    let election = ELECTION.to_owned();
    let call = stub.observe(ObserveRequest { election }).await;
    let mut responses = call.unwrap().into_inner();
    let mut reads = site.observer(0, ELECTION).await;
    for number in 1..=VALUES {
        leader.proclaim(&value(number)).await;
    }
    let newest = value(VALUES);
    reads
        .until(PROMPT, |seen| seen.value() == Some(&newest[..]))
        .await;
    numbers(reads.log(), term.token);

    let mut log = Vec::new();
    let read = async {
        while log.last().and_then(Seen::value) != Some(&newest[..]) {
            let told = responses.message().await.unwrap().unwrap();
            log.push(Seen {
                at: Instant::now(),
                leader: told.leader,
                skipped: told.skipped,
            });
        }
    };
    let limit = Duration::from_secs(5);
    tokio::time::timeout(limit, read).await.unwrap();
    let seen = numbers(&log, term.token);
    assert!(seen.len() < 20, "it was kept for it: {seen:?}");
    assert!(log.iter().any(|seen| seen.skipped), "{seen:?}");
    assert!(leader.resign().await);
    drop((responses, stub, reads));
    site.nothing_is_left().await;
}
