//! Requests on a lease stream.

use std::time::Duration;

use leasehold_proto::v1::{
    AcquireRequest, LockMode, SessionAcquire, SessionDowngrade, SessionFailure, SessionOpen,
    SessionReduce, SessionRelease, SessionSetValue, session_request::Request,
};
use leasehold_tests::{
    Coordinator, RawSession,
    raw::{
        PROMPT, at_least, by, connect, each, exclusive, once_more, revised, semaphore, several,
        shared, wire,
    },
};
use tonic::Code;

use super::{
    Bystander, TTL, assert_invalid,
    values::{bad_acquires, bad_client_names, bad_names, bad_ttls, seconds},
};

fn assert_failure(failure: &SessionFailure, field: &str, what: &str) {
    assert_eq!(
        failure.code,
        Code::InvalidArgument as i32,
        "{what}: {failure:?}"
    );
    assert_eq!(failure.reason, "INVALID_FIELD", "{what}: {failure:?}");
    let fields: Vec<_> = failure
        .field_violations
        .iter()
        .map(|bad| &bad.field)
        .collect();
    assert_eq!(fields, [field], "{what}");
    assert!(
        !failure.field_violations[0].description.is_empty(),
        "{what}"
    );
    assert!(!failure.message.is_empty(), "{what}");
}

#[tokio::test]
async fn session_requests_out_of_bounds_leave_the_stream_and_its_locks_alone() {
    let coordinator = Coordinator::in_process();
    let bystander = Bystander::new(&coordinator).await;
    let mut session = RawSession::open(&coordinator.endpoint(), TTL).await;
    let held = session.acquire("held").await;

    for (what, field, request) in bad_acquires() {
        // Those of the session are the stream's, which needs no keys.
        if ["ttl", "client_name", "request_key"].contains(&field) {
            continue;
        }
        let AcquireRequest {
            name,
            wait,
            value,
            mode,
            lock_delay,
            permits,
            limit,
            limit_revision,
            permits_at_least,
            ..
        } = request;
        let acquire = SessionAcquire {
            name,
            mode,
            wait,
            value,
            lock_delay,
            permits,
            limit,
            limit_revision,
            permits_at_least,
            ..SessionAcquire::default()
        };
        let failure = refused(&mut session, Request::Acquire(acquire)).await;
        assert_failure(&failure, &format!("acquire.{field}"), what);
    }
    for (what, max_hold) in [
        ("no time to hold", seconds(0, 0)),
        ("a negative time to hold", seconds(-1, 0)),
        ("too short a time to hold", seconds(0, 999_999_999)),
        ("more than 365 days to hold", seconds(365 * 86_400, 1)),
    ] {
        let mut acquire = exclusive("free");
        acquire.max_hold = max_hold;
        let failure = refused(&mut session, Request::Acquire(acquire)).await;
        assert_failure(&failure, "acquire.max_hold", what);
    }
    let owner_id = held.lock.owner_id.clone();
    for (what, name) in bad_names() {
        for (kind, request) in changes(name, owner_id.clone()) {
            let failure = refused(&mut session, request).await;
            assert_failure(&failure, &format!("{kind}.name"), what);
        }
    }
    for length in [0, 15, 17] {
        for (kind, request) in changes("held".to_owned(), vec![7; length]) {
            let failure = refused(&mut session, request).await;
            let what = "an owner id of a wrong length";
            assert_failure(&failure, &format!("{kind}.owner_id"), what);
        }
    }
    for permits in [0, 1_000_001, u32::MAX] {
        let reduce = SessionReduce {
            name: "held".to_owned(),
            owner_id: owner_id.clone(),
            permits,
        };
        let failure = refused(&mut session, Request::Reduce(reduce)).await;
        assert_failure(&failure, "reduce.permits", "permits out of bounds");
    }
    let set = SessionSetValue {
        name: "held".to_owned(),
        owner_id,
        value: vec![7; 4_097],
    };
    let failure = refused(&mut session, Request::SetValue(set)).await;
    assert_failure(&failure, "set_value.value", "a value of 4097 bytes");

    // Owner ids that nobody has are answered, and so is a cancel of nothing.
    let mut unknown = held.lock.clone();
    unknown.owner_id = vec![7; 16];
    assert!(!session.release(&unknown).await);
    session.cancel(4_711).await;

    session.heartbeat().await;
    assert!(session.release(&held.lock).await);
    session.close().await;
    bystander.assert_undisturbed().await;
}

/// Returns each request that concerns one hold.
fn changes(name: String, owner_id: Vec<u8>) -> [(&'static str, Request); 4] {
    let release = SessionRelease {
        name: name.clone(),
        owner_id: owner_id.clone(),
        expired: false,
    };
    let set_value = SessionSetValue {
        name: name.clone(),
        owner_id: owner_id.clone(),
        value: Vec::new(),
    };
    let reduce = SessionReduce {
        name: name.clone(),
        owner_id: owner_id.clone(),
        permits: 1,
    };
    let downgrade = SessionDowngrade { name, owner_id };
    [
        ("release", Request::Release(release)),
        ("set_value", Request::SetValue(set_value)),
        ("reduce", Request::Reduce(reduce)),
        ("downgrade", Request::Downgrade(downgrade)),
    ]
}

async fn refused(session: &mut RawSession, request: Request) -> SessionFailure {
    let id = session.send(request).await;
    session.refusal(id, PROMPT).await
}

#[tokio::test]
async fn names_and_actors_that_do_not_go_together_are_refused_and_take_nothing() {
    let coordinator = Coordinator::in_process();
    let bystander = Bystander::new(&coordinator).await;
    let mut session = RawSession::open(&coordinator.endpoint(), TTL).await;

    let many: Vec<String> = (0..62).map(|number| format!("many/{number}")).collect();
    let many = || many.iter().map(String::as_str);
    let mut named = several(["one", "two"]);
    named.name = "one".to_owned();
    let mut bad = vec![
        ("a name twice", several(["one", "two", "one"])),
        ("a name and names", named),
    ];
    let names = bad_names();
    for (what, name) in &names {
        bad.push((*what, several(["one", name])));
        bad.push((*what, several([name.as_str()])));
    }
    for (what, acquire) in bad {
        let failure = refused(&mut session, Request::Acquire(acquire)).await;
        assert_failure(&failure, "acquire.names", what);
    }
    // What is said of all of them beside what is said of each.
    type Spoil = fn(&mut SessionAcquire);
    let of_all: [(&str, Spoil); 7] = [
        ("name", |it| it.name = "one".to_owned()),
        ("names", |it| it.names = vec!["one".to_owned()]),
        ("mode", |it| it.set_mode(LockMode::Shared)),
        ("permits", |it| it.permits = 1),
        ("limit", |it| it.limit = 1),
        ("limit_revision", |it| it.limit_revision = 1),
        ("permits_at_least", |it| it.permits_at_least = 1),
    ];
    for (field, spoil) in of_all {
        let mut acquire = each([exclusive("one"), shared("two")]);
        spoil(&mut acquire);
        let failure = refused(&mut session, Request::Acquire(acquire)).await;
        assert_failure(&failure, &format!("acquire.{field}"), "something of all");
    }
    let mut unknown = exclusive("two");
    unknown.mode = 99;
    for (what, field, acquire) in [
        (
            "fewest permits of a shared one",
            "acquire.locks[1].permits_at_least",
            each([exclusive("one"), at_least(1, shared("two"))]),
        ),
        (
            "more permits at least than at most",
            "acquire.locks[1].permits_at_least",
            each([exclusive("one"), at_least(3, semaphore("two", 2, 3))]),
        ),
        (
            "a revision without permits",
            "acquire.locks[1].limit_revision",
            each([exclusive("one"), revised(1, shared("two"))]),
        ),
        (
            "a name in two modes",
            "acquire.locks[2].name",
            each([exclusive("one"), shared("two"), shared("one")]),
        ),
        (
            "no name in one of them",
            "acquire.locks[1].name",
            each([exclusive("one"), shared("")]),
        ),
        (
            "more permits than there are",
            "acquire.locks[1].permits",
            each([exclusive("one"), semaphore("two", 3, 2)]),
        ),
        (
            "permits without a limit",
            "acquire.locks[0].limit",
            each([semaphore("one", 1, 0), shared("two")]),
        ),
        (
            "an unknown mode",
            "acquire.locks[1].mode",
            each([exclusive("one"), unknown]),
        ),
    ] {
        let failure = refused(&mut session, Request::Acquire(acquire)).await;
        assert_failure(&failure, field, what);
    }
    let too_many = each(many().chain(["one", "two", "three"]).map(shared));
    let failure = refused(&mut session, Request::Acquire(too_many)).await;
    assert_eq!(failure.reason, "TOO_MANY_NAMES", "{failure:?}");
    for (what, acquire) in [
        ("a reentrant acquire of nobody's", exclusive("one")),
        ("the same of several names", several(["one", "two"])),
    ] {
        let failure = refused(&mut session, Request::Acquire(once_more(0, acquire))).await;
        assert_failure(&failure, "acquire.reentrant", what);
    }

    // The bounds themselves are fine, and nothing of the above was taken.
    let all = several(many().chain(["one", "two"]));
    let held = session.take(by(u64::MAX, all)).await;
    assert_eq!(held.len(), 64);
    for lock in &held {
        assert!(session.release(lock).await);
    }
    session.close().await;
    bystander.assert_undisturbed().await;
}

#[tokio::test]
async fn opens_out_of_bounds_are_refused_by_field() {
    let coordinator = Coordinator::in_process();
    let bystander = Bystander::new(&coordinator).await;
    let mut bad = Vec::new();
    let mut add = |what, field, spoil: &dyn Fn(&mut SessionOpen)| {
        let mut open = SessionOpen::default();
        spoil(&mut open);
        bad.push((what, field, open));
    };
    for (what, ttl) in bad_ttls() {
        add(what, "open.ttl", &|it| it.ttl = ttl);
    }
    for (what, name) in bad_client_names() {
        add(what, "open.client_name", &|it| {
            it.client_name.clone_from(&name)
        });
    }
    add("17 entries", "open.metadata", &|it| {
        let entries = (0..17).map(|key| (key.to_string(), String::new()));
        it.metadata = entries.collect();
    });
    for (what, key, value) in [
        ("an empty key", String::new(), "value".to_owned()),
        ("a key of 65 bytes", "k".repeat(65), "value".to_owned()),
        ("a value of 257 bytes", "key".to_owned(), "v".repeat(257)),
    ] {
        add(what, "open.metadata", &|it| {
            it.metadata.insert(key.clone(), value.clone());
        });
    }
    for (what, field, open) in bad {
        let channel = connect(&coordinator.endpoint()).await;
        let mut session = RawSession::stream(channel).await.unwrap();
        session.send(Request::Open(open)).await;
        let status = session.end(PROMPT).await.expect_err(what);
        assert_invalid(&status, field, what);
    }
    let mut good = RawSession::stream(connect(&coordinator.endpoint()).await)
        .await
        .unwrap();
    let opened = good.say_open(Duration::from_secs(3_600)).await;
    assert_eq!(opened.ttl, wire(Duration::from_secs(3_600)));
    bystander.assert_undisturbed().await;
}
