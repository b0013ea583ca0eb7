//! Permissions of a resume: the same as those of an acquire.

use std::time::Duration;

use leasehold_proto::v1::{GrantedLock, LostReason, SessionOpen, SessionResume};
use leasehold_tests::{
    RawSession,
    raw::{
        PROMPT, Resumed, exclusive, fresh_owner_id, resume_hold, resume_wait, semaphore, shared,
        wire,
    },
};

use super::site::{Caller, Site, TTL, table};

/// The request id of a wait that is taken over.
const WAIT: u64 = 1_000_000;

pub(super) async fn resume(caller: &Caller, resume: Vec<SessionResume>) -> (RawSession, Resumed) {
    let mut session = caller.try_session().await.unwrap();
    let open = SessionOpen {
        ttl: wire(TTL),
        resume,
        ..SessionOpen::default()
    };
    let id = session.ask_open(open).await;
    let resumed = session.opened(id).await;
    session.keep_alive(TTL / 4);
    (session, resumed)
}

#[tokio::test]
async fn holds_without_permission_are_left_out_of_a_resume_and_left_alone() {
    let rules = table("token:mine", "acquire", "locks", "a/")
        + &table("token:other", "acquire", "locks", "");
    let site = Site::start(&rules);
    let (mine, other) = (site.newcomer("mine").await, site.newcomer("other").await);
    let mut holder = other.session().await;
    let held = holder.acquire("b/held").await.lock;
    let taken = holder.acquire("b/waited-for").await.lock;
    let mut waiter = other.session().await;
    let waits = waiter.ask_for(exclusive("b/waited-for")).await;
    let ticket = waiter.ticket(waits).await.ticket;
    let mut before = mine.session().await;
    let own = before.acquire("a/own").await.lock;

    // Somebody has told it the others' secrets, and it makes one up.
    let nobodys = GrantedLock {
        name: "b/nobodys".to_owned(),
        owner_id: fresh_owner_id(),
        // Nor is it believed that there was such a token.
        fencing_token: own.fencing_token + 3_600_000_000,
        hold_count: 1,
        permits: 0,
    };
    let asked = vec![
        resume_hold(&held),
        resume_hold(&own),
        resume_hold(&nobodys),
        resume_wait("b/waited-for", &ticket, WAIT),
        resume_wait("b/nobodys", &fresh_owner_id(), WAIT + 1),
    ];
    let (mut session, resumed) = resume(&mine, asked.clone()).await;
    assert_eq!(
        resumed.holds().keys().collect::<Vec<_>>(),
        [&own.name],
        "{resumed:?}"
    );
    let refused = resumed.refused.iter();
    let refused = refused.map(|lock| (&lock.name, &lock.owner_id, lock.reason()));
    let expected = asked.iter().filter(|resume| resume.name != own.name);
    let expected = expected.map(|resume| {
        let next = &resume.next_owner_id;
        (&resume.name, next, LostReason::PermissionRevoked)
    });
    assert_eq!(refused.collect::<Vec<_>>(), expected.collect::<Vec<_>>());

    let fresh = session.acquire("a/fresh").await.lock;
    assert!(fresh.fencing_token < nobodys.fencing_token);
    // Whose they are has them still, and is next.
    assert!(holder.release(&taken).await);
    waiter.granted(waits, PROMPT).await;
    assert!(holder.release(&held).await);
    assert!(holder.unread_unasked().is_empty());
    assert!(session.release(&resumed.holds()["a/own"]).await);
}

#[tokio::test]
async fn a_resume_needs_the_permission_for_the_mode_of_the_hold() {
    let rules = table("token:locks", "acquire", "locks", "")
        + &table("token:elections", "acquire", "elections", "");
    let site = Site::start(&rules);
    let (locks, elections) = (
        site.newcomer("locks").await,
        site.newcomer("elections").await,
    );
    let mut before = locks.session().await;
    let alone = before.take_one(exclusive("alone")).await;
    let together = before.take_one(shared("together")).await;
    let permits = before.take_one(semaphore("permits", 1, 1)).await;
    // Of an election, an exclusive hold is all there is.
    let mut waiter = locks.session().await;
    let waits = waiter.ask_for(semaphore("permits", 1, 1)).await;
    let ticket = waiter.ticket(waits).await.ticket;

    let holds = [&alone, &together, &permits].map(resume_hold);
    let mut asked = holds.to_vec();
    asked.push(resume_wait("permits", &ticket, WAIT));
    let (mut session, resumed) = resume(&elections, asked).await;
    assert_eq!(resumed.resumed.len(), 4, "{resumed:?}");
    let lost = session.lost(PROMPT).await;
    let mut names: Vec<_> = lost.iter().map(|lock| lock.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["permits", "together"]);
    let revoked = |lock: &leasehold_proto::v1::LostLock| lock.reason();
    assert!(
        lost.iter()
            .map(revoked)
            .all(|why| why == LostReason::PermissionRevoked)
    );
    let refused = session.refusal(WAIT, PROMPT).await;
    assert_eq!(refused.reason, "PERMISSION_DENIED");
    // The exclusive one stays, for longer than anything was promised by then.
    let shown = session.heartbeat().await;
    tokio::time::sleep_until((shown + Duration::from_millis(200)).into()).await;
    session.heartbeat().await;
    assert!(session.release(&resumed.holds()["alone"]).await);
}
