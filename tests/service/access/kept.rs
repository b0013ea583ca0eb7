//! Permissions of a session that is kept for a resume after its stream has ended.

use std::time::Duration;

use leasehold_proto::v1::{GetLockRequest, GrantedLock, SessionOpen};
use leasehold_tests::{
    RawSession,
    raw::{PROMPT, exclusive, resume_hold, wire},
    wait,
};

use super::site::{Caller, NOTICED, Site, table};

/// The TTL of the session that is kept.
const LONG: Duration = Duration::from_secs(60);
/// For how long it is kept: much longer than anything here may take.
const GRACE: Duration = Duration::from_secs(40);

fn rules(mine: &[&str]) -> String {
    let mine = mine
        .iter()
        .map(|prefix| table("token:mine", "acquire", "locks", prefix));
    let other = ["acquire", "inspect"].map(|allow| table("token:other", allow, "locks", ""));
    mine.chain(other).collect()
}

/// Returns a session with a grace, and with no heartbeats.
async fn patient(caller: &Caller, resume: Vec<leasehold_proto::v1::SessionResume>) -> RawSession {
    let mut session = caller.try_session().await.unwrap();
    let open = SessionOpen {
        ttl: wire(LONG),
        disconnect_grace: wire(GRACE),
        resume,
        ..SessionOpen::default()
    };
    let id = session.ask_open(open).await;
    let resumed = session.opened(id).await;
    assert!(resumed.refused.is_empty(), "{resumed:?}");
    session
}

/// Waits until what a session holds is kept for its grace alone.
async fn until_kept(other: &Caller, name: &str) {
    wait::until("the session to be kept", PROMPT, || async {
        let name = name.to_owned();
        let mut admin = other.admin();
        let shown = admin.get_lock(other.says(GetLockRequest { name })).await;
        let lock = shown.unwrap().into_inner().lock.unwrap();
        let left = leasehold_tests::raw::parse(lock.holders[0].ttl);
        if left <= GRACE { Ok(()) } else { Err(left) }
    })
    .await;
}

/// Returns a session that waits for this lock.
async fn behind(other: &Caller, name: &str) -> (RawSession, u64) {
    let mut session = other.session().await;
    let id = session.wait_for(exclusive(name)).await;
    (session, id)
}

#[tokio::test]
async fn a_kept_session_gives_up_at_once_what_it_may_not_have_any_more() {
    let mut site = Site::start(&rules(&["a/", "b/"]));
    let (mine, other) = (site.newcomer("mine").await, site.newcomer("other").await);
    let mut holder = other.session().await;
    let waited_for = holder.acquire("a/waited-for").await.lock;
    let mut session = patient(&mine, Vec::new()).await;
    session.acquire("a/held").await;
    let stays: GrantedLock = session.acquire("b/held").await.lock;
    session.wait_for(exclusive("a/waited-for")).await;
    let (mut next, held) = behind(&other, "a/held").await;
    let (mut last, waits) = behind(&other, "a/waited-for").await;
    drop(session);
    until_kept(&other, "a/held").await;

    site.permit(&rules(&["b/"]));
    next.granted(held, PROMPT).await;
    // Nobody is in front of it any more.
    assert!(holder.release(&waited_for).await);
    last.granted(waits, PROMPT).await;
    // The rest is there for its client still.
    let resumed = patient(&mine, vec![resume_hold(&stays)]).await;
    resumed.close().await;
}

#[tokio::test]
async fn a_kept_session_ends_with_the_identity_that_it_is_kept_for() {
    let site = Site::start(&rules(&["a/"]));
    let (mine, other) = (site.newcomer("mine").await, site.newcomer("other").await);
    let mut session = patient(&mine, Vec::new()).await;
    session.acquire("a/held").await;
    let (mut next, id) = behind(&other, "a/held").await;
    drop(session);
    until_kept(&other, "a/held").await;
    site.remove("mine");
    next.granted(id, NOTICED).await;
}
