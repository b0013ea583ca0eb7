//! A client's link to its coordinator is black-holed, and it goes on elsewhere: nothing that the old coordinator does when it
//! gives the client up reaches the locks.

use std::time::Duration;

use futures_util::future::join_all;
use leasehold_proto::v1::{GrantedLock, SessionOpen};
use leasehold_tests::{
    FaultProxy, RawSession, Site,
    raw::{PROMPT, exclusive, resume_hold, wire},
    report, wait,
};

const SESSIONS: usize = 4;
const LOCKS: usize = 5;
/// TTL of the sessions that are cut off. The resumes must reach Redis within it, however busy the machine is.
const TTL: Duration = Duration::from_secs(8);

struct Client {
    old: RawSession,
    new: RawSession,
    before: Vec<GrantedLock>,
    now: Vec<GrantedLock>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_went_on_elsewhere_outlives_the_old_session_and_its_socket() {
    let site = Site::redis(2).await;
    let proxy = FaultProxy::before(&site.endpoint(0)).await;
    let mut olds = Vec::new();
    for number in 0..SESSIONS {
        // Half of them with a grace, which is not what keeps the locks.
        let grace = if number % 2 == 0 { Duration::ZERO } else { TTL };
        let open = SessionOpen {
            ttl: wire(TTL),
            disconnect_grace: wire(grace),
            ..SessionOpen::default()
        };
        let (mut session, _) = RawSession::open_as(&proxy.endpoint(), open).await;
        let names: Vec<_> = (0..LOCKS).map(|lock| format!("{number}/{lock}")).collect();
        let mut before = Vec::new();
        for name in &names {
            before.push(session.take_one(exclusive(name)).await);
        }
        session.heartbeat().await;
        session.keep_alive(TTL / 5);
        olds.push((session, before));
    }
    proxy.black_hole();
    let (elsewhere, deadline) = (site.endpoint(1), TTL);
    let resumes = olds.into_iter().map(|(old, before)| {
        let elsewhere = elsewhere.clone();
        async move {
            let resume = before.iter().map(resume_hold).collect();
            let (mut new, resumed) = RawSession::resume(&elsewhere, deadline, resume).await;
            new.keep_alive(TTL / 5);
            assert!(resumed.refused.is_empty(), "{:?}", resumed.refused);
            let holds = resumed.holds();
            let now = before
                .iter()
                .map(|lock| holds[&lock.name].clone())
                .collect();
            Client {
                old,
                new,
                before,
                now,
            }
        }
    });
    let mut clients = join_all(resumes).await;
    // Every lock moved while the old coordinator still served its session.
    let sessions = site.metric(0, "leasehold_sessions").await;
    assert_eq!(sessions, SESSIONS as f64);

    // The old coordinator gives them up.
    wait_until_given_up(&site).await;
    // Only now does the rest come through, and then the sockets close.
    proxy.forward();
    for client in &mut clients {
        // It was told that it fell silent, or that the connection was closed.
        assert!(client.old.end(PROMPT).await.is_err());
        assert!(client.old.unread_but_resumed().is_empty());
    }
    proxy.cut(leasehold_tests::proxy::Cut::Rst).await;
    let mut stayed = 0;
    for client in &mut clients {
        client.new.heartbeat().await;
        assert!(client.new.unread_unasked().is_empty());
        for (before, now) in client.before.iter().zip(&client.now) {
            assert_eq!(now.fencing_token, before.fencing_token);
            assert!(!client.new.release(before).await);
            assert!(client.new.release(now).await, "{} is gone", now.name);
            stayed += 1;
        }
    }
    assert_eq!(stayed, SESSIONS * LOCKS);
    report(format!("{stayed} locks stayed of {}", SESSIONS * LOCKS));
    assert_eq!(site.metric(0, "leasehold_lost_total").await, 0.0);
    for client in clients {
        client.new.close().await;
    }
    site.nothing_is_left().await;
}

/// Waits until the old coordinator has no sessions left.
async fn wait_until_given_up(site: &Site) {
    wait::until(
        "the silent sessions to be given up",
        TTL + PROMPT,
        || async {
            let left = site.metric(0, "leasehold_sessions").await;
            if left == 0.0 { Ok(()) } else { Err(left) }
        },
    )
    .await;
}
