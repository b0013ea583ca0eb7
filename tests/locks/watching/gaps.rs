//! Gaps: a watcher that may have missed events gets a gap, and a new snapshot.

use std::time::Duration;

use leasehold_proto::v1::{LockEventKind, WatchLocksRequest, watch_locks_response::Response};
use leasehold_tests::{
    Coordinator, RawSession, RedisServer, Site,
    raw::{self, RawObserver, exclusive},
    site::{TTL, everywhere},
    wait,
};
use tonic::Code;

use crate::watching::watch::{Known, Watch};

const LIMIT: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_subscription_is_a_gap_and_a_new_snapshot() {
    let site = Site::redis(2).await;
    let mut redis = site.plain().await;
    let mut session = site.session(0).await;
    let before = session.take_one(exclusive("before")).await;
    let mut watch = Watch::at(&site, 1, "").await;
    for round in 0..3 {
        let mut kill = redis::cmd("CLIENT");
        kill.arg("KILL").arg("TYPE").arg("pubsub");
        let killed: u32 = kill.query_async(&mut redis).await.unwrap();
        assert!(killed >= 1);
        // What happens meanwhile is in the snapshot.
        let held = session
            .take_one(exclusive(&format!("meanwhile/{round}")))
            .await;
        let mut known = Known::default();
        while !(known.is_ready && known.gaps == 1) {
            known.take_in(match watch.next().await {
                // It may have been told just before.
                Response::Event(event) if known.gaps == 0 => {
                    assert_eq!(event.kind(), LockEventKind::Granted);
                    continue;
                }
                other => other,
            });
        }
        let held_now = known.held();
        assert_eq!(held_now["before"], [before.fencing_token]);
        assert_eq!(
            held_now[&format!("meanwhile/{round}")],
            [held.fencing_token]
        );
        assert_eq!(held_now.len(), round + 2);
        // And it goes on.
        let next = session.take_one(exclusive("next")).await;
        assert_eq!(
            watch.told(LockEventKind::Granted).await.fencing_token,
            next.fencing_token
        );
        assert!(session.release(&next).await);
        watch.told(LockEventKind::Released).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_observer_is_told_that_a_lost_subscription_may_have_hidden_leaders() {
    let site = Site::redis(2).await;
    let mut redis = site.plain().await;
    let mut session = site.session(0).await;
    // Whoever holds the lock leads.
    let held = session.take_one(exclusive("led")).await;
    let leader = Some(held.fencing_token);
    let mut observer = RawObserver::observe(site.at(1).channel().await, "led").await;
    let first = observer.next(LIMIT).await;
    assert_eq!((first.token(), first.skipped), (leader, false));
    for _ in 0..2 {
        let mut kill = redis::cmd("CLIENT");
        kill.arg("KILL").arg("TYPE").arg("pubsub");
        let killed: u32 = kill.query_async(&mut redis).await.unwrap();
        assert!(killed >= 1);
        // It leads still, or again.
        let seen = observer.next(LIMIT).await;
        assert_eq!((seen.token(), seen.skipped), (leader, true));
    }
    assert!(session.release(&held).await);
    let seen = observer.next(LIMIT).await;
    assert_eq!((seen.token(), seen.skipped), (None, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_does_not_read_is_told_of_a_gap_and_costs_others_nothing() {
    everywhere(async |site: &Site| {
        let mut watch = Watch::at(site, 0, "").await;
        // It has a connection of its own, and reads nothing.
        let mut idle = Watch::stream(site.at(0).channel().await, "").await;
        let mut session = site.session(0).await;
        let gaps = async || site.at(0).metrics().await.sum("leasehold_watch_gaps_total");
        let mut rounds = 0_u32;
        let value = "x".repeat(4096);
        while gaps().await == 0.0 {
            for _ in 0..100 {
                let held = session
                    .take_one(raw::with_value(&value, exclusive("busy")))
                    .await;
                assert!(session.release(&held).await);
                rounds += 1;
                assert_eq!(
                    watch.told(LockEventKind::Granted).await.fencing_token,
                    held.fencing_token
                );
                watch.told(LockEventKind::Released).await;
            }
            assert!(rounds < 20_000, "what waits for it is not bounded");
        }
        let last = session.take_one(exclusive("last")).await;
        watch.told(LockEventKind::Granted).await;
        // It reads at last: what was sent before, the gap, and how things stand.
        let mut known = Known::default();
        while known.gaps == 0 || !known.is_ready {
            known.take_in(idle.next().await);
        }
        assert_eq!(known.held()["last"], [last.fencing_token]);
        assert!(session.release(&last).await);
        while known.held().contains_key("last") {
            known.take_in(idle.next().await);
        }
        leasehold_tests::report(format!(
            "after {} events, one that read nothing had a gap",
            2 * rounds
        ));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn watchers_of_a_coordinator_that_goes_away_are_told_to_go_elsewhere() {
    let site = Site::redis(2).await;
    let mut watch = Watch::at(&site, 0, "").await;
    let mut staying = Watch::at(&site, 1, "").await;
    site.at(0).terminate();
    let status = watch.end().await;
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    let mut session = site.session(1).await;
    session.take_one(exclusive("later")).await;
    staying.told(LockEventKind::Granted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_redis_is_away_watching_is_refused_and_those_who_watch_wait() {
    let mut site = Site::redis(2).await;
    let mut watch = Watch::at(&site, 0, "").await;
    site.server_mut().kill();
    wait::until("watching to be refused", LIMIT, || async {
        let request = leasehold_proto::v1::WatchLocksRequest::default();
        match site.admin(0).watch_locks(request).await {
            Err(status) if status.code() == Code::Unavailable => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    site.server_mut().restart();
    let mut known = Known::default();
    while known.gaps == 0 || !known.is_ready {
        let response = watch.within(LIMIT).await;
        known.take_in(response.expect("it begins anew"));
    }
    until_watching(&site, 1, Code::Ok).await;
    let mut session = site.session(1).await;
    session.take_one(exclusive("later")).await;
    watch.told(LockEventKind::Granted).await;
}

/// Waits until a request to watch is answered like this.
async fn until_watching(site: &Site, at: usize, answer: Code) {
    let limit = LIMIT;
    wait::until("watching to be answered otherwise", limit, || async {
        let request = WatchLocksRequest::default();
        let code = match site.admin(at).watch_locks(request).await {
            Ok(_) => Code::Ok,
            Err(status) => status.code(),
        };
        if code == answer { Ok(()) } else { Err(code) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_that_may_not_ask_who_listens_says_so_and_watches_once_it_may() {
    let redis = RedisServer::start();
    let mut admin = redis.async_connection().await;
    let mut rights = async |rights: &str| {
        let mut set = redis::cmd("ACL");
        set.arg("SETUSER")
            .arg("some")
            .arg(rights.split(' ').collect::<Vec<_>>());
        set.query_async::<()>(&mut admin).await.unwrap();
    };
    rights("on >secret ~* &* +@all -pubsub").await;
    let store = format!("redis://some:secret@{}", redis.address());
    let coordinator = Coordinator::process().store(store).start();
    let mut session = RawSession::open(&coordinator.endpoint(), TTL).await;
    session.take_one(exclusive("held")).await;
    let mut watch = Watch::stream(coordinator.channel().await, "").await;
    wait::until("the log to say why", raw::PROMPT, || async {
        let log = coordinator.log();
        let says =
            log.contains("nobody hears what is published") && log.contains("docs/watching.md");
        if says { Ok(()) } else { Err(log) }
    })
    .await;
    rights("+pubsub").await;
    assert_eq!(watch.snapshot().await.len(), 1);
}
