//! Cases of resumes at another coordinator.

use leasehold_proto::v1::LostReason;
use leasehold_tests::{
    RawSession,
    raw::{exclusive, resume_hold, resume_wait},
};

use crate::site::{LATE, Site, TTL};

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
