//! Places in queues that are taken over by their tickets.

use std::time::Duration;

use leasehold_proto::v1::{AcquireOutcome, ResumedWait, session_resume::What};
use leasehold_tests::{
    RawSession, Site,
    raw::{PROMPT, exclusive, resume_wait, several, wire},
    site::TTL,
};

/// The request id of resumed waits.
const WAIT: u64 = 1_000_000;

#[tokio::test(flavor = "multi_thread")]
async fn a_resumed_wait_ends_as_any_other() {
    let site = Site::redis(2).await;
    let mut holder = site.session(0).await;
    let held = holder.take_one(exclusive("contended")).await;
    let mut old = site.session(0).await;
    let mut resume = Vec::new();
    for number in 0..3 {
        let id = old.ask_for(exclusive("contended")).await;
        let ticket = old.ticket(id).await.ticket;
        resume.push(resume_wait("contended", &ticket, WAIT + number));
    }
    let short = Duration::from_millis(300);
    resume[1].what = Some(What::Wait(ResumedWait {
        acquire_request_id: WAIT + 1,
        wait: wire(short),
    }));
    resume[2].what = Some(What::Wait(ResumedWait {
        acquire_request_id: WAIT + 2,
        wait: wire(Duration::ZERO),
    }));
    let (mut new, resumed) = RawSession::resume(&site.endpoint(1), TTL, resume).await;
    assert_eq!(resumed.resumed.len(), 3, "{resumed:?}");
    for number in [2, 1] {
        let over = new.not_granted(WAIT + number, PROMPT).await;
        assert_eq!(over.outcome(), AcquireOutcome::TimedOut);
    }
    new.cancel(WAIT).await;
    let over = new.not_granted(WAIT, PROMPT).await;
    assert_eq!(over.outcome(), AcquireOutcome::Cancelled);
    assert_eq!(site.view(0, "contended").await.waiter_count, 0);
    assert!(holder.release(&held).await);
    for session in [holder, old, new] {
        session.close().await;
    }
    site.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ticket_of_one_of_several_names_ends_the_acquire_of_all() {
    let site = Site::redis(2).await;
    let mut holder = site.session(1).await;
    let held = holder.take_one(exclusive("b")).await;
    let mut old = site.session(0).await;
    let id = old.ask_for(several(["a", "b", "c"])).await;
    let ticket = old.ticket(id).await.ticket;
    let resume = vec![resume_wait("b", &ticket, WAIT)];
    let (mut new, resumed) = RawSession::resume(&site.endpoint(1), TTL, resume).await;
    assert_eq!(resumed.places()["b"], 1);
    site.gauge(0, "leasehold_waiters", 0.0).await;
    assert!(holder.release(&held).await);
    let granted = new.granted(WAIT, PROMPT).await;
    let a = new.acquire("a").await;
    assert!(new.release(&a.lock).await);
    assert!(new.release(&granted.lock).await);
    for session in [holder, old, new] {
        session.close().await;
    }
    site.nothing_is_left().await;
}
