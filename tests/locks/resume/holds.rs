//! Holds that are taken over: in every mode, by the same and by another coordinator.

use std::time::Duration;

use leasehold_proto::v1::{GrantedLock, LostReason};
use leasehold_tests::{
    RawSession, Site,
    raw::{
        PROMPT, at_least, by, closing_for, exclusive, once_more, resume_again, resume_hold,
        resume_wait, semaphore, shared, with_value,
    },
    site::TTL,
};

const ACTOR: u64 = 7;

/// Returns a hold of each mode, the exclusive one three times.
async fn holds(session: &mut RawSession, of: &str) -> Vec<GrantedLock> {
    let name = |mode: &str| format!("{of}/{mode}");
    let delay = Duration::from_secs(1);
    let exclusive = with_value("v", closing_for(delay, exclusive(&name("exclusive"))));
    session.take_one(by(ACTOR, exclusive.clone())).await;
    session.take_one(once_more(ACTOR, exclusive.clone())).await;
    vec![
        session.take_one(once_more(ACTOR, exclusive)).await,
        session.take_one(shared(&name("shared"))).await,
        session.take_one(semaphore(&name("permits"), 2, 3)).await,
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_of_every_mode_goes_on_at_the_same_and_at_another_coordinator() {
    let site = Site::redis(2).await;
    for to in [0, 1] {
        moved(&site, to).await;
    }
    site.nothing_is_left().await;
}

async fn moved(site: &Site, to: usize) {
    let mut old = site.session(0).await;
    let held = holds(&mut old, &format!("to-{to}")).await;
    let resume = held.iter().map(resume_hold).collect();
    let (mut new, resumed) = RawSession::resume(&site.endpoint(to), TTL, resume).await;
    assert!(resumed.refused.is_empty(), "{resumed:?}");
    assert!(resumed.good_until.is_some());
    let holds = resumed.holds();
    for before in &held {
        let now = &holds[&before.name];
        assert_ne!(now.owner_id, before.owner_id);
        assert_eq!(now.fencing_token, before.fencing_token);
        assert_eq!(now.hold_count, before.hold_count);
        let view = site.view(0, &before.name).await;
        let [holder] = &view.holders[..] else {
            panic!("one holder: {view:?}")
        };
        assert_eq!(holder.session_id, resumed.opened.session_id);
        assert_eq!(holder.coordinator, resumed.opened.coordinator);
        assert_eq!(holder.hold_count, before.hold_count);
        assert_eq!(holder.fencing_token, before.fencing_token);
    }
    // Whoever has the old ids can do nothing.
    site.gauge(0, "leasehold_holds", if to == 0 { 3.0 } else { 0.0 })
        .await;
    for before in &held {
        assert!(!old.release_once(before).await.released);
        assert!(!old.set_value(before, "stale").await);
    }
    old.heartbeat().await;
    // The old stream is told where they went, whoever resumed them, and that is no loss.
    let mut gone = old.resumed_elsewhere();
    let mut before: Vec<_> = held.iter().map(|lock| lock.owner_id.clone()).collect();
    gone.sort();
    before.sort();
    assert_eq!(gone, before);
    assert!(old.unread_but_resumed().is_empty());
    drop(old);
    site.gauge(0, "leasehold_sessions", if to == 0 { 1.0 } else { 0.0 })
        .await;
    for at in [0, 1] {
        assert_eq!(site.metric(at, "leasehold_lost_total").await, 0.0);
    }
    assert_eq!(site.metric(to, "leasehold_resumed_total").await, 3.0);

    // The new stream has all that the old one had: the count, the actor, the mode.
    new.heartbeat().await;
    let exclusive = holds[&held[0].name].clone();
    let again = new
        .take_one(once_more(ACTOR, super::holds::exclusive(&exclusive.name)))
        .await;
    assert_eq!(
        (again.owner_id.clone(), again.hold_count),
        (exclusive.owner_id.clone(), 4)
    );
    for left in [3, 2, 1, 0] {
        assert_eq!(new.release_once(&exclusive).await.hold_count, left);
    }
    let permits = &holds[&held[2].name];
    let other = new.take_one(semaphore(&permits.name, 1, 3)).await;
    assert!(new.release(&other).await);
    // A clean release: there is no lock-delay.
    let next = new.take_one(super::holds::exclusive(&exclusive.name)).await;
    assert!(next.fencing_token > exclusive.fencing_token);
    new.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn holds_that_can_not_be_resumed_are_refused_with_the_reason() {
    let site = Site::redis(2).await;
    let mut old = site.session(0).await;
    let names = ["released", "forced", "taken", "resumed", "kept"];
    let mut held = Vec::new();
    for name in names {
        held.push(old.take_one(exclusive(name)).await);
    }
    let [released, forced, taken, moved, kept] = &held[..] else {
        unreachable!("five were taken")
    };
    assert!(old.release(released).await);
    let mut other = site.session(1).await;
    assert!(old.release(taken).await);
    let theirs = other.take_one(exclusive("taken")).await;
    site.force(1, "forced").await;
    let first = resume_hold(moved);
    let (elsewhere, _) = RawSession::resume(&site.endpoint(1), TTL, vec![first.clone()]).await;

    let resume: Vec<_> = [released, forced, taken, moved, kept]
        .map(resume_hold)
        .into();
    let (mut new, resumed) = RawSession::resume(&site.endpoint(1), TTL, resume.clone()).await;
    for (resume, reason) in resume.iter().zip([
        LostReason::Deleted,
        LostReason::Deleted,
        LostReason::Taken,
        LostReason::Resumed,
    ]) {
        let refused = resumed.refused.iter().find(|lock| lock.name == resume.name);
        let refused = refused.unwrap_or_else(|| panic!("{} is resumed", resume.name));
        assert_eq!(refused.reason(), reason, "{}", resume.name);
        assert_eq!(refused.owner_id, resume.next_owner_id);
    }
    assert_eq!(resumed.refused.len(), 4);
    assert_eq!(resumed.holds().len(), 1);
    // With the id that was tried, what the stream before took over is had.
    let (again, resumed) =
        RawSession::resume(&site.endpoint(0), TTL, vec![resume_again(&first)]).await;
    assert_eq!(resumed.only_hold().fencing_token, moved.fencing_token);
    assert!(other.release(&theirs).await);
    new.keep_alive(TTL / 5);
    for session in [old, other, elsewhere, new, again] {
        session.close().await;
    }
    site.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_of_permits_says_how_many_also_if_it_was_a_place_or_gave_some_back() {
    const WAIT: u64 = 77;
    let site = Site::redis(2).await;
    let name = "left";
    let mut holder = site.session(0).await;
    let held = holder.take_one(semaphore(name, 4, 5)).await;
    let mut old = site.session(0).await;
    let id = old.ask_for(at_least(2, semaphore(name, 5, 5))).await;
    let ticket = old.ticket(id).await.ticket;
    let resume = |at, what| {
        let endpoint = site.endpoint(at);
        async move { RawSession::resume(&endpoint, TTL, vec![what]).await }
    };
    let (mut new, resumed) = resume(1, resume_wait(name, &ticket, WAIT)).await;
    assert_eq!((resumed.places().len(), resumed.resumed[0].permits), (1, 0));
    // It still asks for what is left.
    assert!(holder.reduce(&held, 2).await);
    let granted = new.granted_all(WAIT, PROMPT).await.remove(0);
    assert_eq!(granted.permits, 3);
    let (mut new, resumed) = resume(0, resume_hold(&granted)).await;
    let hold = resumed.only_hold();
    assert_eq!(hold.permits, 3);
    assert!(new.reduce(&hold, 1).await);
    let (mut new, resumed) = resume(1, resume_hold(&hold)).await;
    let hold = resumed.only_hold();
    assert_eq!(hold.permits, 1);
    assert!(new.release(&hold).await);

    // A ticket whose turn has come is the hold, with what was left.
    let id = new.ask_for(at_least(4, semaphore(name, 5, 5))).await;
    let ticket = new.ticket(id).await.ticket;
    assert!(holder.reduce(&held, 1).await);
    assert_eq!(new.granted_all(id, PROMPT).await[0].permits, 4);
    let (mut last, resumed) = resume(0, resume_wait(name, &ticket, WAIT)).await;
    let hold = resumed.only_hold();
    assert_eq!(hold.permits, 4);
    assert!(last.release(&hold).await);
    assert!(holder.release(&held).await);
}
