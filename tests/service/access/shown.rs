//! Visibility of other callers' locks: nothing is shown without the permission.

use std::{collections::BTreeSet, time::Duration};

use leasehold_proto::v1::{
    AcquireOutcome, CheckTokenRequest, EndSessionRequest, ForceReleaseRequest, GetLockRequest,
    GetStatusRequest, LeaderRequest, ListLocksRequest, ListSessionsRequest, ReleaseRequest,
    RequestReleaseRequest, StoreState,
};
use leasehold_tests::{
    ports::free_port,
    raw::{PROMPT, acquire_request, fresh_owner_id, renew_request},
    wait,
};

use super::site::{Caller, Site, missing, table};

#[tokio::test]
async fn a_refusal_is_the_same_whether_there_is_such_a_lock() {
    let site = Site::start(
        &(table("token:all", "acquire", "locks", "")
            + &table("token:some", "acquire", "locks", "x/")),
    );
    let (all, some) = (site.newcomer("all").await, site.newcomer("some").await);
    let mut session = all.session().await;
    let held = session.acquire("a/held").await.lock;
    let mut refusals: Vec<[String; 2]> = Vec::new();
    for name in ["a/held", "a/free"] {
        let mut asked = some.session().await;
        let id = asked.ask(name, Some(Duration::ZERO)).await;
        let failure = asked.refusal(id, PROMPT).await;
        let get = some.says(GetLockRequest {
            name: name.to_owned(),
        });
        let seen = some.admin().get_lock(get).await.unwrap_err();
        let (permission, on) = missing(&seen);
        assert_eq!((permission.as_str(), on.as_str()), ("inspect", name));
        let known = [failure.message, seen.message().to_owned()];
        refusals.push(known.map(|message| message.replace(name, "…")));
        for word in ["held", "raw", &held.fencing_token.to_string()] {
            assert!(!refusals.concat().concat().contains(word), "{refusals:?}");
        }
    }
    assert_eq!(refusals[0], refusals[1]);
}

async fn listed(caller: &Caller, page_size: i32, hidden: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut page_token = String::new();
    loop {
        let request = ListLocksRequest {
            page_size,
            page_token,
            ..ListLocksRequest::default()
        };
        let page = caller
            .admin()
            .list_locks(caller.says(request))
            .await
            .unwrap()
            .into_inner();
        assert!(
            !page.next_page_token.contains(hidden),
            "a page token tells of a lock"
        );
        names.extend(page.locks.into_iter().map(|lock| lock.name));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return names;
        }
    }
}

#[tokio::test]
async fn the_status_shows_its_load_to_those_who_may_see_everything() {
    let rules = table("token:*", "acquire", "locks", "")
        + &table("token:some", "inspect", "locks", "a/")
        + &table("token:all", "inspect", "locks", "");
    let site = Site::start(&rules);
    let all = site.newcomer("all").await;
    let mut session = all.session().await;
    session.acquire("a/held").await;
    let status = async |name: &str| {
        let caller = site.newcomer(name).await;
        let asked = caller.says(GetStatusRequest {});
        caller.admin().get_status(asked).await.unwrap().into_inner()
    };
    let seen = status("all").await;
    assert!(seen.serving && seen.store == "memory:", "{seen:?}");
    assert_eq!(seen.store_state(), StoreState::Up);
    let counts = [seen.session_count, seen.hold_count, seen.waiter_count];
    assert_eq!(counts, [Some(1), Some(1), Some(0)]);
    assert!(
        seen.max_ttl.is_some() && seen.min_replicas == Some(0),
        "{seen:?}"
    );
    assert!(
        seen.key_prefix.is_some() && !seen.limits.is_empty(),
        "{seen:?}"
    );
    for name in ["some", "nothing"] {
        let less = status(name).await;
        assert_eq!(
            (&less.coordinator, &less.version),
            (&seen.coordinator, &seen.version)
        );
        assert!(less.serving && less.uptime.is_some());
        assert_eq!(less.store_state(), StoreState::Unspecified);
        assert_eq!((less.store, less.reason), (String::new(), String::new()));
        assert_eq!(
            [less.session_count, less.hold_count, less.waiter_count],
            [None; 3]
        );
        assert_eq!((less.key_prefix, less.min_replicas), (None, None));
        assert_eq!([less.min_ttl, less.default_ttl, less.max_ttl], [None; 3]);
        assert!(less.limits.is_empty() && less.certificates.is_empty());
        // Everybody is told what concerns the caller.
        assert!(less.time.is_some() && !less.draining);
        assert_eq!(less.identity, format!("token:{name}"));
        let permissions = less.permissions.iter();
        let inspect = permissions.filter(|it| it.permission == "inspect");
        let locks: Vec<_> = inspect.flat_map(|it| &it.locks).collect();
        assert_eq!(locks, if name == "some" { vec!["a/"] } else { vec![] });
    }
}

#[tokio::test]
async fn listings_show_what_may_be_seen() {
    let rules = table("token:*", "acquire", "locks", "")
        + &table("token:some", "inspect", "locks", "a/")
        + &table("token:some", "inspect", "elections", "e")
        + &table("token:all", "inspect", "locks", "");
    let site = Site::start(&rules);
    let (all, some) = (site.newcomer("all").await, site.newcomer("some").await);
    let mut session = all.session().await;
    let seen = ["a/1", "a/2", "e", "e2"];
    let hidden = [
        "0hidden", "b/hidden", "c/hidden", "d/hidden", "f/hidden", "z/hidden",
    ];
    for name in seen.iter().chain(&hidden) {
        session.acquire(name).await;
    }
    for page_size in [1, 2, 100] {
        let expected: BTreeSet<String> = seen.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(listed(&some, page_size, "hidden").await, expected);
        assert_eq!(
            listed(&all, page_size, "nothing").await.len(),
            seen.len() + hidden.len()
        );
    }
    let _mine = some.session().await;
    let sessions = async |caller: &Caller| {
        let request = caller.says(ListSessionsRequest::default());
        let page = caller
            .admin()
            .list_sessions(request)
            .await
            .unwrap()
            .into_inner();
        let mut who: Vec<String> = page
            .sessions
            .into_iter()
            .map(|view| view.identity)
            .collect();
        who.sort();
        who
    };
    assert_eq!(sessions(&some).await, ["token:some"]);
    assert_eq!(sessions(&all).await, ["token:all", "token:some"]);
}

#[tokio::test]
async fn a_caller_that_may_only_acquire_does_not_see_the_holder() {
    let rules =
        table("token:*", "acquire", "locks", "") + &table("token:sees", "inspect", "locks", "");
    let site = Site::start(&rules);
    let (blind, sees) = (site.newcomer("blind").await, site.newcomer("sees").await);
    let mut holder = sees.session().await;
    holder.acquire("a").await;
    for (caller, is_told) in [(&blind, false), (&sees, true)] {
        let request = caller.says(acquire_request("a"));
        let busy = caller.locks().acquire(request).await.unwrap().into_inner();
        assert_eq!(busy.outcome(), AcquireOutcome::Busy);
        assert_eq!(busy.holder.is_some(), is_told);
        let mut session = caller.session().await;
        let id = session.ask("a", Some(Duration::ZERO)).await;
        let not_granted = session.not_granted(id, PROMPT).await;
        assert_eq!(not_granted.holder.is_some(), is_told);
    }
}

/// Every call that reaches the store.
async fn failures(caller: &Caller) -> Vec<String> {
    let (mut locks, mut admin) = (caller.locks(), caller.admin());
    let (name, owner_id) = ("a".to_owned(), fresh_owner_id());
    let lock = GetLockRequest { name: name.clone() };
    let token = CheckTokenRequest {
        name: name.clone(),
        fencing_token: 1,
    };
    let force = ForceReleaseRequest {
        name: name.clone(),
        ..ForceReleaseRequest::default()
    };
    let ask = RequestReleaseRequest {
        name: name.clone(),
        ..RequestReleaseRequest::default()
    };
    let end = EndSessionRequest {
        session_id: "0b".repeat(16),
    };
    let leader = LeaderRequest {
        election: name.clone(),
    };
    let renew = renew_request(&name, &owner_id);
    let release = ReleaseRequest { name, owner_id };
    let acquire = caller.says(acquire_request("a"));
    let list = caller.says(ListLocksRequest::default());
    let failures = [
        locks.acquire(acquire).await.unwrap_err(),
        locks.renew(caller.says(renew)).await.unwrap_err(),
        locks.release(caller.says(release)).await.unwrap_err(),
        admin.list_locks(list).await.unwrap_err(),
        admin.get_lock(caller.says(lock)).await.unwrap_err(),
        admin.check_token(caller.says(token)).await.unwrap_err(),
        admin.force_release(caller.says(force)).await.unwrap_err(),
        admin.request_release(caller.says(ask)).await.unwrap_err(),
        admin.end_session(caller.says(end)).await.unwrap_err(),
        caller
            .elections()
            .leader(caller.says(leader))
            .await
            .unwrap_err(),
    ];
    let mut messages: Vec<_> = failures
        .iter()
        .map(|said| said.message().to_owned())
        .collect();
    let mut session = caller.session().await;
    let id = session.ask("a", Some(Duration::ZERO)).await;
    messages.push(session.refusal(id, PROMPT).await.message);
    messages
}

#[tokio::test]
async fn a_failure_of_the_store_says_where_it_is_to_those_who_may_see_everything() {
    let rules = table("token:*", "acquire", "locks", "")
        + &table("token:*", "administer", "locks", "")
        + &table("token:*", "inspect", "locks", "a")
        + &table("token:*", "inspect", "elections", "")
        + &table("token:all", "inspect", "locks", "");
    let address = format!("127.0.0.1:{}", free_port());
    let store = format!("redis://{address}");
    let site = Site::start_with(&rules, &["--token-file", "tokens", "--store", &store]);
    for (name, sees_all) in [("some", false), ("all", true)] {
        for said in failures(&site.newcomer(name).await).await {
            assert!(said.contains("the store is out of reach"), "{said}");
            assert_eq!(said.contains(&address), sees_all, "{name}: {said}");
        }
    }
}

#[tokio::test]
async fn addresses_of_holders_and_waiters_are_shown_to_those_who_see_the_sessions() {
    let rules = table("token:*", "acquire", "locks", "")
        + &table("token:*", "inspect", "locks", "a")
        + &table("token:all", "inspect", "locks", "");
    let site = Site::start(&rules);
    let (all, some) = (site.newcomer("all").await, site.newcomer("some").await);
    let (mut holding, mut waiting) = (all.session().await, some.session().await);
    holding.acquire("a").await;
    waiting.ask("a", None).await;
    let peers = async |caller: &Caller| {
        let request = caller.says(GetLockRequest { name: "a".into() });
        let view = caller.admin().get_lock(request).await.unwrap();
        let lock = view.into_inner().lock.unwrap();
        let holders = lock.holders.into_iter().map(|it| it.peer);
        let waiters = lock.waiters.into_iter().map(|it| it.peer);
        holders.chain(waiters).collect::<Vec<_>>()
    };
    let listed = async |caller: &Caller| {
        let request = caller.says(ListSessionsRequest::default());
        let page = caller.admin().list_sessions(request).await.unwrap();
        let sessions = page.into_inner().sessions.into_iter();
        sessions
            .map(|it| (it.identity, it.peer))
            .collect::<Vec<_>>()
    };
    wait::until("the waiter", PROMPT, async || match peers(&all).await {
        both if both.len() == 2 => Ok(()),
        fewer => Err(fewer),
    })
    .await;
    let sessions = listed(&all).await;
    let of = |identity: &str| {
        let session = sessions.iter().find(|(it, _)| it == identity);
        session.unwrap().1.clone()
    };
    assert!(of("token:all").starts_with("127.0.0.1:"), "{sessions:?}");
    let both = vec![of("token:all"), of("token:some")];
    assert_eq!(peers(&all).await, both);
    assert_eq!(peers(&some).await, vec![String::new(), both[1].clone()]);
}
