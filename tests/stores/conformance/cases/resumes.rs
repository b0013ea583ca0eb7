//! Cases of resumes at another coordinator.

use std::time::{Duration, Instant};

use leasehold_proto::v1::{GrantedLock, LostReason};
use leasehold_tests::{
    RawSession,
    raw::{exclusive, held_for_at_most, resume_hold, resume_wait},
};

use crate::conformance::site::{LATE, Site, TTL};

pub(crate) async fn of_a_hold(site: &Site) {
    let mut old = site.session(0).await;
    let lock = old.take_one(exclusive("resumes/hold")).await;
    let resume = vec![resume_hold(&lock)];
    let (mut new, resumed) = RawSession::resume(&site.endpoint(1), TTL, resume).await;
    new.keep_alive(TTL / 5);
    let hold = resumed.only_hold();
    assert_eq!(hold.fencing_token, lock.fencing_token);
    assert_ne!(hold.owner_id, lock.owner_id);
    assert!(!old.release(&lock).await, "the old id can do nothing");
    drop(old);
    let view = site.view(0, "resumes/hold").await;
    assert_eq!(view.holders[0].session_id, resumed.opened.session_id);
    assert!(new.release(&hold).await);
    new.close().await;
}

/// Resumes at the same coordinator too, which is all that is possible if each coordinator has a queue of its own.
pub(crate) async fn of_a_place(site: &Site) {
    let mut holder = site.session(1).await;
    let lock = holder.take_one(exclusive("resumes/place")).await;
    let mut old = site.session(0).await;
    let id = old.ask("resumes/place", None).await;
    let ticket = old.ticket(id).await.ticket;
    let resume = vec![resume_wait("resumes/place", &ticket, 7)];
    let at = usize::from(site.offers().one_queue);
    let (mut new, resumed) = RawSession::resume(&site.endpoint(at), TTL, resume).await;
    new.keep_alive(TTL / 5);
    assert_eq!(resumed.places()["resumes/place"], 1);
    drop(old);
    assert!(holder.release(&lock).await);
    let next = new.granted_all(7, LATE).await.remove(0);
    assert!(next.fencing_token > lock.fencing_token);
    assert!(new.release(&next).await);
    new.close().await;
    holder.close().await;
}

pub(crate) async fn of_what_is_gone(site: &Site) {
    let mut old = site.session(0).await;
    let lock = old.take_one(exclusive("resumes/gone")).await;
    assert!(old.release(&lock).await);
    let resume = vec![resume_hold(&lock)];
    let (new, resumed) = RawSession::resume(&site.endpoint(1), TTL, resume).await;
    assert!(resumed.resumed.is_empty(), "{resumed:?}");
    let [refused] = &resumed.refused[..] else {
        panic!("{resumed:?}")
    };
    assert_eq!(refused.reason(), LostReason::Deleted);
    new.close().await;
    old.close().await;
}

/// The bound of a hold does not begin anew with a resume, whatever the client says, and not with a change of the hold.
pub(crate) async fn of_a_bounded_hold(site: &Site) {
    let mut old = site.session(0).await;
    let max_hold = Duration::from_secs(4);
    let bounded = held_for_at_most(max_hold, exclusive("resumes/bounded"));
    let lock = old.take_one(bounded).await;
    let granted = Instant::now();
    assert!(old.set_value(&lock, "a value that the hold had not").await);
    // A bound that began anew would be seen to.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let counted = GrantedLock {
        hold_count: 2,
        ..lock
    };
    let resume = vec![resume_hold(&counted)];
    let before = granted.elapsed();
    let (mut new, resumed) = RawSession::resume(&site.endpoint(1), TTL, resume).await;
    new.keep_alive(TTL / 5);
    drop(old);
    let ends_in = Duration::try_from(resumed.resumed[0].ends_in.unwrap()).unwrap();
    assert!(ends_in + before <= max_hold, "{ends_in:?} after {before:?}");
    assert!(ends_in > Duration::ZERO);
    let lost = new.lost(max_hold + LATE).await.remove(0);
    assert_eq!(lost.reason(), LostReason::MaxHold);
    // It is kept until its client must have heard of this, but not resumed again. The coordinator counts from before the grant, the
    // store from the grant itself.
    tokio::time::sleep_until((granted + max_hold).into()).await;
    let again = vec![resume_hold(&resumed.only_hold())];
    let (third, resumed) = RawSession::resume(&site.endpoint(0), TTL, again).await;
    assert_eq!(resumed.refused[0].reason(), LostReason::Expired);
    third.close().await;
    new.close().await;
}
