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
/// By then each coordinator has refreshed a name that is waited for, which it does once a second.
const REFRESHED: Duration = Duration::from_millis(1_100);

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_keeps_its_place_at_the_same_and_at_another_coordinator() {
    let site = Site::redis(3).await;
    for to in [0, 1, 2] {
        let name = format!("to-{to}");
        let mut holder = site.session(2).await;
        let held = holder.take_one(exclusive(&name)).await;
        let mut old = site.session(0).await;
        let first = old.ask_for(exclusive(&name)).await;
        let first = old.ticket(first).await;
        // One behind it, at each coordinator: the resumed place is before those of its new neighbours.
        let mut behind = Vec::new();
        for at in [0, 1, 2] {
            let mut session = site.session(at).await;
            let id = session.wait_for(exclusive(&name)).await;
            behind.push((session, id));
        }
        let resume = resume_wait(&name, &first.ticket, WAIT);
        let next = resume.next_owner_id.clone();
        let (mut new, resumed) = RawSession::resume(&site.endpoint(to), TTL, vec![resume]).await;
        new.keep_alive(TTL / 5);
        assert_eq!(resumed.places()[&name], 1, "{resumed:?}");
        assert_eq!(resumed.good_until, None, "nothing is held");
        // A refresh at each coordinator: the places stay what they are.
        site.gauge(0, "leasehold_waiters", if to == 0 { 2.0 } else { 1.0 })
            .await;
        site.passed(site.time().await, REFRESHED).await;
        drop(old);
        assert!(holder.release(&held).await);
        let granted = new.granted(WAIT, PROMPT).await;
        assert_eq!(granted.lock.owner_id, next);
        assert!(new.release(&granted.lock).await);
        for (mut session, id) in behind {
            let granted = session.granted(id, PROMPT).await;
            assert!(session.release(&granted.lock).await);
            session.close().await;
        }
        holder.close().await;
        new.close().await;
    }
    site.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_old_stream_hears_nothing_of_a_place_that_was_resumed() {
    let site = Site::redis(2).await;
    for to in [0, 1] {
        let name = format!("to-{to}");
        let mut holder = site.session(1).await;
        let held = holder.take_one(exclusive(&name)).await;
        let mut old = site.session(0).await;
        let id = old.ask_for(exclusive(&name)).await;
        let ticket = old.ticket(id).await.ticket;
        let (mut new, _) = RawSession::resume(
            &site.endpoint(to),
            TTL,
            vec![resume_wait(&name, &ticket, WAIT)],
        )
        .await;
        site.gauge(0, "leasehold_waiters", if to == 0 { 1.0 } else { 0.0 })
            .await;
        // Neither a cancel nor the end of the old stream reaches it.
        old.cancel(id).await;
        old.heartbeat().await;
        assert!(holder.release(&held).await);
        let granted = new.granted(WAIT, PROMPT).await;
        // Its request id is free again, and nothing was said under it.
        let free = old.acquire(&format!("{name}/free")).await;
        assert!(old.release(&free.lock).await);
        old.half_close();
        while let Some(said) = old.next(PROMPT).await.unwrap() {
            assert_ne!(said.request_id, id, "{said:?}");
        }
        assert!(new.release(&granted.lock).await);
        holder.close().await;
        new.close().await;
    }
    site.nothing_is_left().await;
}

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
