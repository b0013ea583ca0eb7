//! Identities that are removed, or expire, while their sessions are open.

use std::time::{Duration, Instant, SystemTime};

use leasehold_proto::v1::SessionOpen;
use leasehold_tests::{
    RawSession,
    raw::{PROMPT, resume_hold, wire},
};
use tonic::Code;

use super::site::{Caller, NOTICED, Site, TTL, reason, table};

const LATE: Duration = Duration::from_secs(3);

fn rules() -> String {
    table("token:*", "acquire", "locks", "")
}

/// Returns a session that holds a lock, and another that waits for it.
async fn scene(mine: &Caller, other: &Caller) -> (RawSession, RawSession, u64) {
    let mut session = mine.session().await;
    session.acquire("a").await;
    let mut waiting = other.session().await;
    let next = waiting.ask("a", None).await;
    waiting.queued(next).await;
    (session, waiting, next)
}

/// Checks that the stream ends for this reason, and that the other session gets the lock only after the promised time.
async fn ends(mut session: RawSession, mut waiting: RawSession, next: u64, why: &str) {
    let status = session.end(NOTICED).await.unwrap_err();
    assert_eq!(status.code(), Code::Unauthenticated, "{status:?}");
    assert_eq!(reason(&status), why);
    let promised = session.good_until().expect("heartbeats were answered");
    waiting.granted(next, TTL + LATE).await;
    let at = Instant::now();
    assert!(
        at >= promised,
        "{:?} before what was promised had passed",
        promised - at
    );
}

#[tokio::test]
async fn a_removed_token_ends_its_streams_and_leaves_what_was_promised() {
    let site = Site::start(&rules());
    let (mine, other) = (site.newcomer("mine").await, site.newcomer("other").await);
    let (session, waiting, next) = scene(&mine, &other).await;
    let mut idle = mine.session().await;
    let mut unopened = mine.try_session().await.unwrap();
    site.remove("mine");
    ends(session, waiting, next, "UNAUTHENTICATED").await;
    assert!(idle.end(PROMPT).await.is_err());
    assert_eq!(
        mine.is_known().await.unwrap_err().code(),
        Code::Unauthenticated
    );
    // Whoever has not opened its session by then does not.
    let open = SessionOpen {
        ttl: wire(TTL),
        ..SessionOpen::default()
    };
    unopened.ask_open(open).await;
    assert_eq!(
        reason(&unopened.next(PROMPT).await.unwrap_err()),
        "UNAUTHENTICATED"
    );
}

#[tokio::test]
async fn an_expired_token_ends_its_streams_and_a_newer_one_resumes() {
    let site = Site::start(&rules());
    let expires = SystemTime::now() + Duration::from_secs(4);
    let mine = site
        .newcomer_until("mine", &format!("expires={}", rfc3339(expires)))
        .await;
    let newer = site.newcomer("mine").await;
    let mut session = mine.session().await;
    let held = session.acquire("a").await;
    let status = session.end(NOTICED).await.unwrap_err();
    assert_eq!(reason(&status), "IDENTITY_EXPIRED");
    // The file has it in whole milliseconds.
    assert!(SystemTime::now() + Duration::from_millis(1) > expires);
    assert_eq!(
        reason(&mine.is_known().await.unwrap_err()),
        "IDENTITY_EXPIRED"
    );
    // Nobody had it in between.
    let mut again = newer.try_session().await.unwrap();
    let open = SessionOpen {
        ttl: wire(TTL),
        resume: vec![resume_hold(&held.lock)],
        ..SessionOpen::default()
    };
    let id = again.ask_open(open).await;
    let resumed = again.opened(id).await;
    assert_eq!(resumed.only_hold().fencing_token, held.lock.fencing_token);
}

#[tokio::test]
async fn the_first_source_of_identities_ends_the_streams_of_nobody() {
    let mut site = Site::start_with("", &[]);
    let nobody = site.caller(None).await;
    let mut session = nobody.session().await;
    session.acquire("a").await;
    site.ask_for_tokens();
    let status = session.end(NOTICED).await.unwrap_err();
    assert_eq!(reason(&status), "UNAUTHENTICATED");
}

fn rfc3339(time: SystemTime) -> String {
    humantime::format_rfc3339_millis(time).to_string()
}
