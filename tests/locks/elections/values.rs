//! Values that a leader proclaims, up to 4 KiB.

use leasehold_client::{Failure, FailureKind};
use leasehold_proto::v1::campaign_response::Response;
use leasehold_tests::{RawCandidate, Site, raw::PROMPT, site::TTL};
use tonic::Code;

const ELECTION: &str = "values";
const LARGEST: usize = 4096;

/// Returns this many bytes of all kinds.
fn bytes(first: u8, count: usize) -> Vec<u8> {
    (0..count)
        .map(|at| first.wrapping_add((at % 251) as u8))
        .collect()
}

/// Asserts that every way of asking gives this value.
async fn has_value(site: &Site, value: &[u8]) {
    for at in 0..2 {
        assert_eq!(site.leader(at, ELECTION).await.unwrap().value, value);
        assert_eq!(site.view(at, ELECTION).await.holders[0].value, value);
        // One that comes now is told of it first.
        let mut observer = site.observer(at, ELECTION).await;
        assert_eq!(observer.next(PROMPT).await.value(), Some(value));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_kibibytes_are_told_as_they_are_and_one_byte_more_is_refused() {
    let site = Site::redis(2).await;
    let mut observer = site.observer(1, ELECTION).await;
    assert_eq!(observer.next(PROMPT).await.token(), None);
    let first = bytes(0, LARGEST);
    let mut leader = site.candidate(0, ELECTION, &first).await;
    let term = leader.elected(PROMPT).await;
    let seen = observer.leads(term.token, PROMPT).await;
    assert_eq!(seen.value(), Some(&first[..]));
    has_value(&site, &first).await;

    let second = bytes(100, LARGEST);
    leader.proclaim(&second).await;
    assert_eq!(observer.next(PROMPT).await.value(), Some(&second[..]));
    has_value(&site, &second).await;

    // Too large, it changes nothing.
    let too_large = bytes(0, LARGEST + 1);
    leader.ask_proclaim(&too_large).await;
    match leader.next(PROMPT).await.1 {
        Ok(Some(Response::Error(failure))) => {
            assert_eq!(failure.code, Code::InvalidArgument as i32);
            assert_eq!(failure.field_violations[0].field, "proclaim.value");
        }
        other => panic!("{other:?}"),
    }
    let refused = RawCandidate::try_campaign(site.channel(1), ELECTION, &too_large, TTL).await;
    assert_eq!(refused.unwrap_err().code(), Code::InvalidArgument);
    has_value(&site, &second).await;
    assert_eq!(site.view(0, ELECTION).await.waiter_count, 0);
    assert!(leader.resign().await);

    // By the client.
    let client = site.client(1, TTL).await;
    let election = client.election(ELECTION);
    let refused = election.campaign(too_large.clone()).await.unwrap_err();
    let kind = refused.failure().map(Failure::kind);
    assert_eq!(kind, Some(FailureKind::InvalidArgument), "{refused:?}");
    let leadership = election.campaign(second.clone()).await.unwrap();
    leadership.proclaim(too_large).await.unwrap_err();
    has_value(&site, &second).await;
    leadership.proclaim(first.clone()).await.unwrap();
    has_value(&site, &first).await;
    assert_eq!(election.leader().await.unwrap().unwrap().value, first);
    // None is one as well.
    leadership.proclaim("").await.unwrap();
    has_value(&site, b"").await;
    leadership.resign().await.unwrap();
    client.close().await;
    drop(observer);
    site.nothing_is_left().await;
}
