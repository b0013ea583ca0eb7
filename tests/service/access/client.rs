//! Behaviour of the Rust client when it loses its identity or a permission, and when it comes with newer credentials.

use std::{
    path::PathBuf,
    time::{Duration, SystemTime},
};

use leasehold_client::{
    AcquireError, Client, Failure, FailureKind, HoldError, LockGuard, LockState, LostReason,
};
use leasehold_tests::{RawSession, wait};
use tokio::time::timeout;

use super::site::{NOTICED, Site, TTL, table, token};

/// Longer than anything here takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(20);
/// A TTL that no step of a test outlasts.
const LONG: Duration = Duration::from_secs(30);

fn rules() -> String {
    ["mine", "other"].map(permitted).concat()
}

fn permitted(name: &str) -> String {
    let who = format!("token:{name}");
    let acquire = table(&who, "acquire", "locks", "") + &table(&who, "acquire", "elections", "");
    acquire + &table(&who, "inspect", "locks", "") + &table(&who, "inspect", "elections", "")
}

/// Returns the file that the client's token is in.
fn file(site: &Site) -> PathBuf {
    site.file("mine.token")
}

/// Returns a client with the token that is in that file now.
async fn client(site: &Site, ttl: Duration) -> Client {
    Client::builder()
        .ttl(ttl)
        .bearer_token_file(file(site))
        .connect(site.endpoint())
        .await
        .unwrap()
}

/// Does the same with a token of its own.
async fn newcomer(site: &Site, ttl: Duration) -> Client {
    let known = site.newcomer("mine").await;
    site.replace("mine.token", &known.token.unwrap());
    client(site, ttl).await
}

/// Reads what a watcher or an observer is told until it is refused.
async fn refused<T>(mut next: impl AsyncFnMut() -> Option<Result<T, Failure>>) -> FailureKind {
    let refused = async {
        loop {
            if let Err(failure) = next().await.expect("a refusal is told") {
                return failure.kind();
            }
        }
    };
    timeout(LIMIT, refused).await.unwrap()
}

/// Opens another caller's session that holds the lock.
async fn other_holds(site: &Site, name: &str) -> RawSession {
    let mut other = site.newcomer("other").await.session().await;
    other.acquire(name).await;
    other
}

async fn lost(guard: &LockGuard) -> LostReason {
    timeout(NOTICED + LIMIT, guard.lost()).await.unwrap()
}

async fn until(state: LockState, guard: &LockGuard) {
    let (what, limit) = (format!("{state:?}"), NOTICED + LIMIT);
    wait::until(&what, limit, || async {
        match guard.state() {
            now if now == state => Ok(()),
            now => Err(now),
        }
    })
    .await;
}

#[tokio::test]
async fn a_removed_client_learns_of_it_everywhere_and_goes_on_with_a_newer_token() {
    let site = Site::start(&rules());
    let client = newcomer(&site, TTL).await;
    let _other = other_holds(&site, "b").await;
    let guard = client.lock("a").await.unwrap();
    let leadership = client.election("e").campaign("me").await.unwrap();
    let waits = client.clone();
    let waiting = tokio::spawn(async move { waits.lock("b").await });
    let mut watcher = client.admin().watch_locks("");
    watcher.next().await.unwrap().unwrap();
    let mut observer = client.election("e").observe();
    observer.next().await.unwrap().unwrap();

    site.remove("mine");
    // What it holds is left to it for as long as was promised, should it come with a newer token.
    let changed = timeout(NOTICED + LIMIT, guard.changed()).await.unwrap();
    assert_eq!(changed, LockState::Suspended);
    assert_eq!(lost(&guard).await, LostReason::Unauthenticated);
    assert_eq!(leadership.lost().await, LostReason::Unauthenticated);
    let waited = timeout(LIMIT, waiting).await.unwrap().unwrap();
    let error = waited.unwrap_err();
    assert!(
        matches!(error, AcquireError::Unauthenticated { .. }),
        "{error:?}"
    );
    let kind = refused(async || watcher.next().await).await;
    assert_eq!(kind, FailureKind::Unauthenticated);
    let kind = refused(async || observer.next().await).await;
    assert_eq!(kind, FailureKind::Unauthenticated);
    let error = client.admin().get_lock("a").await.unwrap_err();
    assert_eq!(error.kind(), FailureKind::Unauthenticated);

    // All of it goes on with what is in the file then, without another client.
    let before = guard.fencing_token();
    let known = site.newcomer("mine").await;
    site.replace("mine.token", &known.token.unwrap());
    let guard = wait::until("a grant", LIMIT, || async {
        // An attempt with the former token may still be on its way.
        client.lock("a").await
    })
    .await;
    assert!(guard.fencing_token() > before);
    client.admin().get_lock("a").await.unwrap();
    let mut observer = client.election("e").observe();
    let now = timeout(LIMIT, observer.next()).await.unwrap().unwrap();
    assert_eq!(now.unwrap().leader, None);
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_client_with_a_newer_token_in_time_has_its_locks_back() {
    let folder = tempfile::tempdir().unwrap();
    let expires = SystemTime::now() + Duration::from_secs(6);
    let (known, line) = token("mine");
    let expires = humantime::format_rfc3339_millis(expires);
    std::fs::write(
        folder.path().join("tokens"),
        format!("{line} expires={expires}\n"),
    )
    .unwrap();
    let site = Site::start_in(folder, &rules(), &["--token-file", "tokens"]);
    site.replace("mine.token", &known);
    let client = client(&site, LONG).await;
    let guard = client.lock("a").await.unwrap();
    let leadership = client.election("e").campaign("me").await.unwrap();
    let mut other = site.newcomer("other").await.session().await;
    let behind = other.ask("a", None).await;
    other.queued(behind).await;

    until(LockState::Suspended, &guard).await;
    assert!(!leadership.is_leader());
    let newer = site.newcomer("mine").await;
    site.replace("mine.token", &newer.token.unwrap());
    until(LockState::Held, &guard).await;
    assert!(leadership.is_leader());
    assert!(other.unread_unasked().is_empty());
    guard.set_value("still mine").await.unwrap();
    let view = client.admin().get_lock("a").await.unwrap();
    assert_eq!(view.holders[0].value, b"still mine");
    let token = guard.fencing_token().get();
    guard.release().await.unwrap();
    let granted = other.granted(behind, LIMIT).await;
    assert!(granted.lock.fencing_token > token);
    leadership.resign().await.unwrap();
}

#[tokio::test]
async fn a_permission_that_is_revoked_is_the_reason_and_the_rest_goes_on() {
    let mut site = Site::start(&rules());
    let client = newcomer(&site, LONG).await;
    let _other = other_holds(&site, "a/busy").await;
    let guard = client.lock("a/1").await.unwrap();
    let kept = client.lock("b/1").await.unwrap();
    let leadership = client.election("a/e").campaign("me").await.unwrap();
    let waits = client.clone();
    let waiting = tokio::spawn(async move { waits.lock("a/busy").await });
    wait::until("a waiter", LIMIT, || async {
        let view = client.admin().get_lock("a/busy").await.unwrap();
        if view.waiter_count > 0 {
            Ok(())
        } else {
            Err(view)
        }
    })
    .await;
    let session = client.default_session().info();

    let fewer = table("token:mine", "acquire", "locks", "b/");
    site.permit(&(fewer + &permitted("other")));
    assert_eq!(lost(&guard).await, LostReason::PermissionRevoked);
    assert_eq!(leadership.lost().await, LostReason::PermissionRevoked);
    let waited = timeout(LIMIT, waiting).await.unwrap().unwrap();
    let error = waited.unwrap_err();
    let AcquireError::PermissionDenied { source, .. } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(source.metadata("permission"), Some("acquire"));
    assert_eq!(source.metadata("name"), Some("a/busy"));
    let released = guard.release().await.unwrap_err();
    assert!(
        matches!(
            released,
            HoldError::Lost {
                reason: LostReason::PermissionRevoked,
                ..
            }
        ),
        "{released:?}"
    );
    let again = client.lock("a/1").await.unwrap_err();
    assert!(
        matches!(again, AcquireError::PermissionDenied { .. }),
        "{again:?}"
    );
    assert!(kept.is_held());

    // Nothing of that ended the session, nor does it need another one when it may again.
    site.permit(&rules());
    let guard = wait::until("it to be permitted again", LIMIT, || async {
        client.lock("a/1").await
    })
    .await;
    assert_eq!(client.default_session().info(), session);
    guard.release().await.unwrap();
    kept.release().await.unwrap();
}
