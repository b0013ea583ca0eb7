//! Cases of elections.

use leasehold_proto::v1::{LeaderRequest, ObserveRequest};
use leasehold_tests::{RawCandidate, RawObserver, raw::reason, wait};

use super::modes::NOT_OFFERED;
use crate::conformance::site::{LATE, Site, TTL};

pub(crate) async fn elect_one_after_the_other(site: &Site) {
    let election = "elections/next";
    let mut first = RawCandidate::campaign(site.channel(0), election, b"first", TTL).await;
    let term = first.elected(LATE).await;
    let mut second = RawCandidate::campaign(site.channel(1), election, b"second", TTL).await;
    let leader = async |at| {
        let election = election.to_owned();
        let answer = site.elections(at).leader(LeaderRequest { election }).await;
        answer.unwrap().into_inner().leader
    };
    let leads = leader(1).await.unwrap();
    assert_eq!(leads.value, b"first");
    assert_eq!(leads.fencing_token, term.token);
    drop(first);
    let next = second.elected(LATE).await;
    assert!(next.token > term.token);
    assert_eq!(leader(0).await.unwrap().value, b"second");
    drop(second);
    wait::until("nobody to lead", LATE, || async {
        leader(0).await.map_or(Ok(()), Err)
    })
    .await;
}

pub(crate) async fn are_observed(site: &Site) {
    let election = "elections/observed";
    if !site.offers().watching {
        let observe = ObserveRequest {
            election: election.to_owned(),
        };
        let refused = site.elections(0).observe(observe).await.map(|_| ());
        let refused = refused.unwrap_err();
        assert_eq!(reason(&refused), NOT_OFFERED, "{refused:?}");
        return;
    }
    let mut observer = RawObserver::observe(site.channel(1), election).await;
    assert_eq!(observer.next(LATE).await.token(), None);
    for value in [b"one", b"two"] {
        let mut candidate = RawCandidate::campaign(site.channel(0), election, value, TTL).await;
        let term = candidate.elected(LATE).await;
        let seen = observer.next(LATE).await;
        assert_eq!(seen.token(), Some(term.token));
        assert_eq!(seen.value(), Some(&value[..]));
        drop(candidate);
        assert_eq!(observer.next(LATE).await.token(), None);
    }
}
