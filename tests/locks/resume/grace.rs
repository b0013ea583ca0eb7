//! Stream that its peer ended, with a grace: its holds are kept for a resume, and no longer than its client believes.

use std::time::{Duration, Instant};

use leasehold_proto::v1::{GrantedLock, SessionOpen};
use leasehold_tests::{
    RawSession, Site,
    raw::{PROMPT, closing_for, exclusive, resume_hold, resume_wait, wire},
    site::TTL,
    wait,
};

const GRACE: Duration = Duration::from_secs(1);
/// Long enough for a resume on a busy machine.
const LONG_GRACE: Duration = Duration::from_secs(4);
const WAIT: u64 = 1_000_000;

/// Opens a session with a grace.
async fn patient(endpoint: &str, ttl: Duration, grace: Duration) -> RawSession {
    let open = SessionOpen {
        ttl: wire(ttl),
        disconnect_grace: wire(grace),
        ..SessionOpen::default()
    };
    RawSession::open_as(endpoint, open).await.0
}

/// Returns a session that waits for these locks, and the request ids.
async fn behind(site: &Site, held: &[&GrantedLock]) -> (RawSession, Vec<u64>) {
    let mut waiter = site.session(1).await;
    let mut ids = Vec::new();
    for lock in held {
        ids.push(waiter.wait_for(exclusive(&lock.name)).await);
    }
    (waiter, ids)
}

#[tokio::test(flavor = "multi_thread")]
async fn holds_that_are_not_resumed_are_handed_on_when_the_grace_is_over() {
    let site = Site::redis(2).await;
    let delay = Duration::from_secs(1);
    let mut broken = patient(&site.endpoint(0), TTL, GRACE).await;
    let plain = broken.take_one(exclusive("plain")).await;
    let delayed = broken
        .take_one(closing_for(delay, exclusive("delayed")))
        .await;
    let (mut waiter, ids) = behind(&site, &[&plain, &delayed]).await;
    broken.heartbeat().await;
    let ended = Instant::now();
    drop(broken);
    // The keys end with it, should the coordinator do so too.
    for (name, most) in [("plain", GRACE), ("delayed", GRACE + delay)] {
        wait::until("the key to end with the grace", PROMPT, || async {
            let left = site.expires_in(name).await;
            if left <= most { Ok(()) } else { Err(left) }
        })
        .await;
    }
    assert_eq!(site.metric(0, "leasehold_sessions").await, 1.0);
    for (id, after) in ids.into_iter().zip([GRACE, GRACE + delay]) {
        let granted = waiter.granted(id, after + PROMPT).await;
        assert!(ended.elapsed() >= after);
        assert!(waiter.release(&granted.lock).await);
    }
    waiter.close().await;
    site.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn holds_resumed_in_the_grace_are_not_lost() {
    let site = Site::redis(2).await;
    let mut sessions = Vec::new();
    for to in [0, 1] {
        let mut broken = patient(&site.endpoint(0), TTL, LONG_GRACE).await;
        let held = broken.take_one(exclusive(&format!("to-{to}"))).await;
        let (waiter, ids) = behind(&site, &[&held]).await;
        drop(broken);
        let resume = vec![resume_hold(&held)];
        let (mut new, resumed) = RawSession::resume(&site.endpoint(to), TTL, resume).await;
        new.keep_alive(TTL / 5);
        sessions.push((new, resumed.only_hold(), waiter, ids[0]));
    }
    let ended = site.time().await;
    // The sessions that broke are over as soon as they have nothing left, long before their grace is.
    site.gauge(0, "leasehold_sessions", 1.0).await;
    // When the grace would have been over, by Redis's clock, the locks are where they were.
    site.passed(ended, LONG_GRACE).await;
    for (mut new, now, mut waiter, id) in sessions {
        assert_eq!(
            site.view(1, &now.name).await.fencing_token,
            now.fencing_token
        );
        assert!(site.expires_in(&now.name).await > Duration::ZERO);
        assert!(new.release(&now).await);
        let granted = waiter.granted(id, PROMPT).await;
        assert!(waiter.release(&granted.lock).await);
        waiter.close().await;
        new.close().await;
    }
    assert_eq!(site.metric(0, "leasehold_lost_total").await, 0.0);
    site.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_without_a_stream_goes_on_waiting_and_keeps_its_grant() {
    let site = Site::redis(2).await;
    let grace = Duration::from_secs(5);
    let mut holder = site.session(1).await;
    let held = holder.take_one(exclusive("waited")).await;
    let still = holder.take_one(exclusive("still")).await;
    let dropped = holder.take_one(exclusive("dropped")).await;
    let mut broken = patient(&site.endpoint(0), TTL, grace).await;
    let mut tickets = Vec::new();
    for name in ["waited", "still"] {
        let id = broken.ask_for(exclusive(name)).await;
        tickets.push(broken.ticket(id).await.ticket);
    }
    // Several names: nobody can resume a part of that.
    broken
        .wait_for(leasehold_tests::raw::several(["a", "dropped"]))
        .await;
    drop(broken);
    site.gauge(0, "leasehold_waiters", 2.0).await;
    // Nobody has it but by the ticket: whoever comes now is behind.
    assert!(holder.release(&held).await);
    site.gauge(0, "leasehold_holds", 1.0).await;
    let mut other = site.session(1).await;
    let late = other.wait_for(exclusive("waited")).await;
    let resume = vec![
        resume_wait("waited", &tickets[0], WAIT),
        resume_wait("still", &tickets[1], WAIT + 1),
    ];
    let (mut new, resumed) = RawSession::resume(&site.endpoint(1), TTL, resume).await;
    let granted = &resumed.holds()["waited"];
    assert!(granted.fencing_token > held.fencing_token);
    assert_eq!(resumed.places()["still"], 1);
    site.gauge(0, "leasehold_sessions", 0.0).await;
    assert!(holder.release(&still).await);
    let second = new.granted(WAIT + 1, PROMPT).await;
    assert!(new.release(granted).await);
    let third = other.granted(late, PROMPT).await;
    assert!(new.release(&second.lock).await);
    assert!(other.release(&third.lock).await);
    assert!(holder.release(&dropped).await);
    for session in [holder, other, new] {
        session.close().await;
    }
    site.nothing_is_left().await;
}
