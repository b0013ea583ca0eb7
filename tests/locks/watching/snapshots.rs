//! Snapshots: a watcher misses nothing between the snapshot and the first event.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use leasehold_proto::v1::{
    ListLocksRequest, LockEventKind, WatchLocksRequest, watch_locks_response::Response,
};
use leasehold_tests::{
    RawSession, Site,
    raw::{self, exclusive, shared},
    report,
    site::everywhere,
    wait,
};
use tonic::Code;

use crate::watching::watch::{Known, Watch};

/// Returns the held locks as a listing shows them.
async fn listed(site: &Site, prefix: &str) -> BTreeMap<String, Vec<i64>> {
    let mut admin = site.admin(0);
    let (mut held, mut page_token) = (BTreeMap::new(), String::new());
    loop {
        let prefix = prefix.to_owned();
        let request = ListLocksRequest {
            prefix,
            page_token,
            page_size: 1000,
        };
        let page = admin.list_locks(request).await.unwrap().into_inner();
        for lock in page.locks {
            let mut tokens: Vec<i64> = lock
                .holders
                .iter()
                .map(|holder| holder.fencing_token)
                .collect();
            tokens.sort_unstable();
            if !tokens.is_empty() {
                held.insert(lock.name, tokens);
            }
        }
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return held;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_has_the_beginnings_of_values_that_are_many() {
    let site = Site::memory().await;
    let mut session = site.session(0).await;
    // With the first, both locks have 64 KiB of values; the further one has more.
    for number in 0..=16 {
        for name in ["few", "many"] {
            let mut acquire = shared(name);
            acquire.value = vec![b'v'; if number == 16 { 1 } else { 4096 }];
            if name == "many" || number < 16 {
                session.take_one(acquire).await;
            }
        }
    }
    let (_, snapshot) = Watch::begin(site.at(0).channel().await, "").await;
    let bytes = |at: usize| {
        let holders = snapshot[at].holders.iter();
        holders.map(|it| it.value.len()).collect::<Vec<_>>()
    };
    assert_eq!(bytes(0), [4096; 16]);
    let mut cut = bytes(1);
    cut.sort_unstable();
    assert_eq!(cut, [&[1][..], &[64; 16]].concat());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_has_what_there_is_in_order() {
    const LOCKS: usize = 300;
    everywhere(async |site: &Site| {
        let mut session = site.session(0).await;
        for number in 0..LOCKS {
            session
                .take_one(exclusive(&format!("many/{number:04}")))
                .await;
        }
        session.take_one(exclusive("other")).await;
        let mut waiter = site.session(1).await;
        waiter.wait_for(exclusive("many/0007")).await;
        for at in [0, 1, 1] {
            let (_, snapshot) = Watch::begin(site.at(at).channel().await, "many/").await;
            let names: Vec<_> = snapshot.iter().map(|lock| lock.name.clone()).collect();
            let expected: Vec<_> = (0..LOCKS)
                .map(|number| format!("many/{number:04}"))
                .collect();
            assert_eq!(names, expected);
            assert_eq!(snapshot[7].waiter_count, 1);
            assert!(
                snapshot
                    .iter()
                    .all(|lock| raw::parse(lock.holders[0].ttl) > Duration::ZERO)
            );
        }
        let (_, nothing) = Watch::begin(site.at(0).channel().await, "nothing/").await;
        assert!(nothing.is_empty());
    })
    .await;
}

/// Watchers begin while locks come and go, and all come to know what a listing shows in the end; each checks every event
/// against what it knew before.
#[tokio::test(flavor = "multi_thread")]
async fn watchers_that_begin_in_the_middle_miss_nothing() {
    const NAMES: usize = 150;
    const WATCHERS: usize = 12;
    /// Taken when all others are done: what comes before that has been told to whoever knows of it.
    const LAST: &str = "churn/last";
    everywhere(async |site: &Site| {
        let mut workers = Vec::new();
        for number in 0..4_usize {
            let mut session = site.session(number).await;
            workers.push(tokio::spawn(async move {
                // Of each name that it holds, it gives some back again.
                for round in 0..400 {
                    let name = format!("churn/{}", (round * 7 + number * 13) % NAMES);
                    let acquire = if round % 3 == 0 {
                        shared(&name)
                    } else {
                        exclusive(&name)
                    };
                    let id = session
                        .ask_for(raw::for_at_most(Duration::from_millis(2), acquire))
                        .await;
                    use leasehold_proto::v1::session_response::Response::{Granted, NotGranted};
                    match session.outcome(id, raw::PROMPT).await {
                        Granted(granted) if round % 5 != 0 => {
                            assert!(session.release(&granted.locks[0]).await);
                        }
                        Granted(_) | NotGranted(_) => {}
                        other => panic!("{other:?}"),
                    }
                }
                session
            }));
        }
        let mut watchers = Vec::new();
        for number in 0..WATCHERS {
            let mut watch = Watch::stream(site.at(number).channel().await, "churn/").await;
            watchers.push(tokio::spawn(async move {
                let mut known = Known::default();
                while !(known.is_ready && known.holders.contains_key(LAST)) {
                    known.take_in(watch.next().await);
                }
                known
            }));
        }
        let mut sessions = Vec::new();
        for worker in workers {
            sessions.push(worker.await.unwrap());
        }
        sessions[0].take_one(exclusive(LAST)).await;
        let mut events = 0;
        let expected = wait::until("the listing to stand still", raw::PROMPT, || async {
            let (one, other) = (listed(site, "churn/").await, listed(site, "churn/").await);
            if one == other { Ok(one) } else { Err(()) }
        })
        .await;
        for watcher in watchers {
            let known = watcher.await.unwrap();
            assert!(known.is_ready && known.gaps == 0, "{known:?}");
            events += known.events;
            assert_eq!(known.held(), expected);
        }
        assert!(events > 0 && !expected.is_empty());
        leasehold_tests::report(format!("{WATCHERS} watchers were told {events} events"));
    })
    .await;
}

/// Left to `make soak` by `make test`.
mod soak {
    use super::*;

    /// More than any queue in between has room for.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_snapshot_of_very_many_locks_comes_to_its_end() {
        const LOCKS: usize = 20_000;
        const SESSIONS: usize = 4;
        /// Long enough that nothing has to be renewed meanwhile: a slow machine could not renew so many in time.
        const LONG: Duration = Duration::from_secs(600);
        everywhere(async |site: &Site| {
            let mut sessions = Vec::new();
            for number in 0..SESSIONS {
                sessions.push(async move {
                    let mut session = RawSession::open(&site.at(number).endpoint(), LONG).await;
                    session.keep_alive(LONG / 5);
                    for batch in 0..LOCKS / SESSIONS / 100 {
                        let mut asked = Vec::new();
                        for lock in 0..100 {
                            let name = format!("crowd/{number}/{batch}/{lock}");
                            asked.push(session.ask_for(exclusive(&name)).await);
                        }
                        for id in asked {
                            session.granted_all(id, raw::PROMPT).await;
                        }
                    }
                    session
                });
            }
            let _sessions = join_all(sessions).await;
            let began = Instant::now();
            let mut watch = Watch::stream(site.at(0).channel().await, "").await;
            let first = watch.within(LONG / 5).await;
            assert!(matches!(first, Some(Response::Lock(_))), "{first:?}");
            report(format!(
                "{LOCKS} locks were known after {:?}",
                began.elapsed()
            ));
            let mut known = Known::default();
            known.take_in(first.unwrap());
            while !known.is_ready {
                known.take_in(watch.next().await);
            }
            assert_eq!((known.held().len(), known.gaps), (LOCKS, 0));
            let mut session = site.session(1).await;
            session.take_one(exclusive("another")).await;
            watch.told(LockEventKind::Granted).await;
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_requests_are_refused() {
    let site = Site::redis(2).await;
    let request = WatchLocksRequest {
        prefix: "x".repeat(513),
    };
    let refused = site.admin(0).watch_locks(request).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().contains("512"), "{refused:?}");
}
