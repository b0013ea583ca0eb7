//! Permission to end a session: `administer` on all locks, or on each that the session has.

use leasehold_proto::v1::{EndSessionRequest, EndSessionResponse, GetLockRequest, GrantedLock};
use leasehold_tests::raw::{PROMPT, exclusive, resume_hold};
use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::{
    resumed::resume,
    site::{Caller, Site, missing, table},
};

async fn end(caller: &Caller, session_id: &str) -> Result<EndSessionResponse, Status> {
    let session_id = session_id.to_owned();
    let request = caller.says(EndSessionRequest { session_id });
    let ended = caller.admin().end_session(request).await;
    ended.map(tonic::Response::into_inner)
}

async fn session_of(caller: &Caller, name: &str) -> String {
    let name = name.to_owned();
    let mut admin = caller.admin();
    let lock = admin.get_lock(caller.says(GetLockRequest { name })).await;
    let lock = lock.unwrap().into_inner().lock.unwrap();
    lock.holders[0].session_id.clone()
}

#[tokio::test]
async fn a_session_is_ended_by_those_who_administer_each_of_its_locks() {
    let mut rules = String::new();
    for permission in ["acquire", "inspect"] {
        for prefix in ["a/", "b/"] {
            rules += &table("token:client", permission, "locks", prefix);
        }
    }
    for (who, permission, prefixes) in [
        ("all", "administer", &[""][..]),
        ("one", "administer", &["a/"]),
        ("both", "administer", &["a/", "b/"]),
        ("looks", "inspect", &[""]),
        ("acquires", "acquire", &[""]),
        ("nothing", "administer", &[]),
    ] {
        for prefix in prefixes {
            rules += &table(&format!("token:{who}"), permission, "locks", prefix);
        }
    }
    let site = Site::start(&rules);
    let client = site.newcomer("client").await;
    let mut session = client.session().await;
    let mine = session.take_one(exclusive("a/lock")).await;
    let id = session_of(&client, "a/lock").await;
    let other = session.take_one(exclusive("b/lock")).await;
    let (one, both) = (site.newcomer("one").await, site.newcomer("both").await);
    let mut refused = vec![client.clone(), one.clone()];
    for who in ["looks", "acquires", "nothing"] {
        refused.push(site.newcomer(who).await);
    }
    for caller in &refused {
        let status = end(caller, &id).await.unwrap_err();
        let what = ("administer".to_owned(), String::new());
        assert_eq!(missing(&status), what, "{caller:?}");
    }
    let nobody = site.caller(None).await;
    let status = end(&nobody, &id).await.unwrap_err();
    assert_eq!(status.code(), Code::Unauthenticated, "{status:?}");
    // Nothing was touched.
    session.heartbeat().await;
    assert_eq!(session_of(&client, "b/lock").await, id);

    // A lock less, and the permission suffices.
    assert!(session.release(&other).await);
    let answer = end(&one, &id).await.unwrap();
    assert_eq!((answer.session_count, answer.hold_count), (1, 1));
    assert_eq!(session.lost(PROMPT).await[0].owner_id, mine.owner_id);
    // Of one that has no lock, nobody knows whose it is.
    let mut idle = client.session().await;
    let lock = idle.take_one(exclusive("a/lock")).await;
    let id = session_of(&client, "a/lock").await;
    assert!(idle.release(&lock).await);
    assert!(end(&one, &id).await.is_err());
    assert!(end(&both, &id).await.is_err());
    let all = site.newcomer("all").await;
    assert_eq!(end(&all, &id).await.unwrap().session_count, 1);
    assert!(idle.end(PROMPT).await.is_err());
}

#[tokio::test]
async fn what_a_session_has_that_has_resumed_from_it_counts_too() {
    let mut rules = String::new();
    for (who, permission, kind, prefix) in [
        ("client", "acquire", "locks", ""),
        ("client", "inspect", "locks", ""),
        ("one", "administer", "locks", "a/"),
        ("both", "administer", "elections", "a/"),
        ("both", "administer", "locks", "b/"),
    ] {
        rules += &table(&format!("token:{who}"), permission, kind, prefix);
    }
    let site = Site::start(&rules);
    let client = site.newcomer("client").await;
    let mut old = client.session().await;
    let moved = old.take_one(exclusive("a/moved")).await;
    old.take_one(exclusive("a/kept")).await;
    let id = session_of(&client, "a/moved").await;
    let (mut new, resumed) = resume(&client, vec![resume_hold(&moved)]).await;
    assert_eq!(resumed.refused, []);
    let others = [
        new.take_one(exclusive("a/other")).await,
        new.take_one(exclusive("b/other")).await,
    ];
    let (one, both) = (site.newcomer("one").await, site.newcomer("both").await);
    let status = end(&one, &id).await.unwrap_err();
    assert_eq!(missing(&status), ("administer".to_owned(), String::new()));
    assert!(status.message().contains("ended were 1 sessions, 1 holds"));
    assert!(old.end(PROMPT).await.is_err());
    // The other one was not touched.
    new.heartbeat().await;
    for lock in &others {
        assert_ne!(session_of(&client, &lock.name).await, id);
    }
    let answer = end(&both, &id).await.unwrap();
    assert_eq!((answer.session_count, answer.hold_count), (1, 3));
    assert!(new.end(PROMPT).await.is_err());
}

#[tokio::test]
async fn a_session_that_has_released_all_that_it_had_of_another_one_does_not_end_with_it() {
    let site = Site::start_with("", &[]);
    let anybody = site.caller(None).await;
    let mut old = anybody.session().await;
    let moved = old.take_one(exclusive("moved")).await;
    old.take_one(exclusive("kept")).await;
    let id = session_of(&anybody, "kept").await;
    let (mut new, resumed) = resume(&anybody, vec![resume_hold(&moved)]).await;
    let owner_id = resumed.resumed[0].owner_id.clone();
    assert!(new.release(&GrantedLock { owner_id, ..moved }).await);
    new.take_one(exclusive("other")).await;
    let answer = end(&anybody, &id).await.unwrap();
    assert_eq!((answer.session_count, answer.hold_count), (1, 1));
    assert!(old.end(PROMPT).await.is_err());
    new.heartbeat().await;
    assert_ne!(session_of(&anybody, "other").await, id);
}

#[tokio::test]
async fn a_malformed_session_id_is_refused() {
    let site = Site::start_with("", &[]);
    let anybody = site.caller(None).await;
    let long = "0".repeat(33);
    let hyphens = "00000000-0000-0000-0000-000000000000";
    let malformed = ["", "0", "no session", &"g".repeat(32), &long, hyphens];
    for id in malformed {
        let status = end(&anybody, id).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{id:?}: {status:?}");
        let details = status.get_details_bad_request().unwrap();
        assert_eq!(details.field_violations[0].field, "session_id", "{id:?}");
    }
    let ended = end(&anybody, &"0".repeat(32)).await.unwrap();
    assert_eq!(ended, EndSessionResponse::default());
}
