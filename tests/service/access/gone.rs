//! Identities that are removed, or expire, while their sessions are open.

use std::time::{Duration, Instant, SystemTime};

use leasehold_proto::v1::SessionOpen;
use leasehold_tests::{
    RawSession,
    raw::{PROMPT, exclusive, resume_hold},
};
use tonic::Code;

use super::{
    resumed::resume,
    site::{Caller, NOTICED, Site, TTL, ends, reason, table, token},
};

fn rules() -> String {
    table("token:*", "acquire", "locks", "")
}

/// Returns a session that holds a lock, and another that waits for it.
async fn scene(mine: &Caller, other: &Caller) -> (RawSession, RawSession, u64) {
    let mut session = mine.session().await;
    session.acquire("a").await;
    let mut waiting = other.session().await;
    let next = waiting.wait_for(exclusive("a")).await;
    (session, waiting, next)
}

/// Checks that the stream ends for this reason, and that the other session gets the lock only after the promised time.
async fn leaves(mut session: RawSession, mut waiting: RawSession, next: u64, why: &str) {
    let status = session.end(NOTICED).await.unwrap_err();
    assert_eq!(status.code(), Code::Unauthenticated, "{status:?}");
    assert_eq!(reason(&status), why);
    let promised = session.good_until().expect("heartbeats were answered");
    waiting.granted(next, TTL + PROMPT).await;
    let at = Instant::now();
    assert!(at >= promised, "{:?} early", promised - at);
}

#[tokio::test]
async fn a_removed_token_ends_its_streams_and_leaves_what_was_promised() {
    let site = Site::start(&rules());
    let (mine, other) = (site.newcomer("mine").await, site.newcomer("other").await);
    let (session, waiting, next) = scene(&mine, &other).await;
    let mut idle = mine.session().await;
    let mut unopened = mine.try_session().await.unwrap();
    site.remove("mine");
    leaves(session, waiting, next, "UNAUTHENTICATED").await;
    assert!(idle.end(PROMPT).await.is_err());
    assert_eq!(
        mine.is_known().await.unwrap_err().code(),
        Code::Unauthenticated
    );
    // Whoever has not opened its session by then does not.
    unopened.ask_open(SessionOpen::default()).await;
    assert_eq!(
        reason(&unopened.next(PROMPT).await.unwrap_err()),
        "UNAUTHENTICATED"
    );
}

#[tokio::test]
async fn an_expired_token_ends_its_streams_and_a_newer_one_resumes() {
    let folder = tempfile::tempdir().unwrap();
    let expires = SystemTime::now() + Duration::from_secs(6);
    let ((short, line), (long, newer)) = (token("mine"), token("mine"));
    let expiry = humantime::format_rfc3339_millis(expires);
    let tokens = format!("{line} expires={expiry}\n{newer}\n");
    std::fs::write(folder.path().join("tokens"), tokens).unwrap();
    let site = Site::start_in(folder, &rules(), &["--token-file", "tokens"]);
    let mine = site.caller(Some(&short)).await;
    let mut session = mine.session().await;
    let held = session.acquire("a").await;
    ends(&mut session, "IDENTITY_EXPIRED").await;
    // The file has it in whole milliseconds.
    assert!(SystemTime::now() + Duration::from_millis(1) > expires);
    mine.is_refused("IDENTITY_EXPIRED").await;
    // Nobody had it in between.
    let newer = site.caller(Some(&long)).await;
    let (_again, resumed) = resume(&newer, vec![resume_hold(&held.lock)]).await;
    assert_eq!(resumed.only_hold().fencing_token, held.lock.fencing_token);
}

#[tokio::test]
async fn the_first_source_of_identities_ends_the_streams_of_nobody() {
    let mut site = Site::start_with("", &[]);
    let nobody = site.caller(None).await;
    let mut session = nobody.session().await;
    session.acquire("a").await;
    site.ask_for_tokens();
    ends(&mut session, "UNAUTHENTICATED").await;
}
