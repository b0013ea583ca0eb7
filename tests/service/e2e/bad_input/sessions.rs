//! Requests on a lease stream.

use std::time::Duration;

use leasehold_proto::v1::{
    AcquireRequest, LockMode, SessionAcquire, SessionDowngrade, SessionFailure, SessionOpen,
    SessionReduce, SessionRelease, SessionSetValue, session_request::Request,
    session_response::Response,
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
    values::{bad_acquires, bad_names, bad_ttls, seconds},
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
        // Those of the session are the stream's.
        if ["ttl", "client_name"].contains(&field) {
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
        (
            "a time to hold of less than a second",
            seconds(0, 999_999_999),
        ),
        (
            "a time to hold of more than 365 days",
            seconds(365 * 86_400, 1),
        ),
    ] {
        let acquire = SessionAcquire {
            name: "free".to_owned(),
            max_hold,
            ..SessionAcquire::default()
        };
        let failure = refused(&mut session, Request::Acquire(acquire)).await;
        assert_failure(&failure, "acquire.max_hold", what);
    }
    for (what, name) in bad_names() {
        let release = SessionRelease {
            name: name.clone(),
            owner_id: held.lock.owner_id.clone(),
        };
        let failure = refused(&mut session, Request::Release(release)).await;
        assert_failure(&failure, "release.name", what);
        let owner_id = held.lock.owner_id.clone();
        let set = SessionSetValue {
            name,
            owner_id,
            value: Vec::new(),
        };
        let failure = refused(&mut session, Request::SetValue(set)).await;
        assert_failure(&failure, "set_value.name", what);
    }
    for (what, name) in bad_names() {
        let owner_id = held.lock.owner_id.clone();
        let downgrade = SessionDowngrade { name, owner_id };
        let failure = refused(&mut session, Request::Downgrade(downgrade)).await;
        assert_failure(&failure, "downgrade.name", what);
    }
    for (what, name) in bad_names() {
        let reduce = SessionReduce {
            name,
            owner_id: held.lock.owner_id.clone(),
            permits: 1,
        };
        let failure = refused(&mut session, Request::Reduce(reduce)).await;
        assert_failure(&failure, "reduce.name", what);
    }
    for permits in [0, 1_000_001, u32::MAX] {
        let reduce = SessionReduce {
            name: "held".to_owned(),
            owner_id: held.lock.owner_id.clone(),
            permits,
        };
        let failure = refused(&mut session, Request::Reduce(reduce)).await;
        assert_failure(&failure, "reduce.permits", "permits out of bounds");
    }
    for length in [0, 15, 17] {
        let (name, owner_id) = ("held".to_owned(), vec![7; length]);
        let downgrade = SessionDowngrade { name, owner_id };
        let failure = refused(&mut session, Request::Downgrade(downgrade)).await;
        let what = "an owner id of a wrong length";
        assert_failure(&failure, "downgrade.owner_id", what);
        let reduce = SessionReduce {
            name: "held".to_owned(),
            owner_id: vec![7; length],
            permits: 1,
        };
        let failure = refused(&mut session, Request::Reduce(reduce)).await;
        assert_failure(&failure, "reduce.owner_id", what);
        let release = SessionRelease {
            name: "held".to_owned(),
            owner_id: vec![7; length],
        };
        let failure = refused(&mut session, Request::Release(release)).await;
        assert_failure(
            &failure,
            "release.owner_id",
            "an owner id of a wrong length",
        );
    }
    let (name, owner_id) = ("held".to_owned(), held.lock.owner_id.clone());
    let set = SessionSetValue {
        name,
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

async fn refused(session: &mut RawSession, request: Request) -> SessionFailure {
    let id = session.send(request).await;
    match session.answer(id, PROMPT).await {
        Response::Error(failure) => failure,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn names_and_actors_that_do_not_go_together_are_refused_and_take_nothing() {
    let coordinator = Coordinator::in_process();
    let bystander = Bystander::new(&coordinator).await;
    let mut session = RawSession::open(&coordinator.endpoint(), TTL).await;

    let many: Vec<String> = (0..62).map(|number| format!("many/{number}")).collect();
    let many = || many.iter().map(String::as_str);
    let mut bad = vec![
        ("a name twice", several(["one", "two", "one"])),
        (
            "a name and names",
            SessionAcquire {
                name: "one".to_owned(),
                ..several(["one", "two"])
            },
        ),
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
    let both = || [exclusive("one"), shared("two")];
    for (what, field, acquire) in [
        (
            "a name and locks",
            "acquire.name",
            SessionAcquire {
                name: "one".to_owned(),
                ..each(both())
            },
        ),
        (
            "names and locks",
            "acquire.names",
            SessionAcquire {
                names: vec!["one".to_owned()],
                ..each(both())
            },
        ),
        (
            "a mode for all beside those of each",
            "acquire.mode",
            SessionAcquire {
                mode: LockMode::Shared.into(),
                ..each(both())
            },
        ),
        (
            "permits of all",
            "acquire.permits",
            SessionAcquire {
                permits: 1,
                ..each(both())
            },
        ),
        (
            "a limit of all",
            "acquire.limit",
            SessionAcquire {
                limit: 1,
                ..each(both())
            },
        ),
        (
            "a revision of all",
            "acquire.limit_revision",
            SessionAcquire {
                limit_revision: 1,
                ..each(both())
            },
        ),
        (
            "fewest permits of all",
            "acquire.permits_at_least",
            SessionAcquire {
                permits_at_least: 1,
                ..each(both())
            },
        ),
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
            each([
                exclusive("one"),
                SessionAcquire {
                    mode: 99,
                    ..exclusive("two")
                },
            ]),
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
    for (what, ttl) in bad_ttls() {
        bad.push((
            what,
            "open.ttl",
            SessionOpen {
                ttl,
                ..SessionOpen::default()
            },
        ));
    }
    let client_name = "c".repeat(257);
    let open = SessionOpen {
        client_name,
        ..SessionOpen::default()
    };
    bad.push(("a client name of 257 bytes", "open.client_name", open));
    for (what, entries) in [
        (
            "17 entries",
            (0..17)
                .map(|key| (key.to_string(), String::new()))
                .collect(),
        ),
        ("an empty key", vec![(String::new(), "value".to_owned())]),
        (
            "a key of 65 bytes",
            vec![("k".repeat(65), "value".to_owned())],
        ),
        (
            "a value of 257 bytes",
            vec![("key".to_owned(), "v".repeat(257))],
        ),
    ] {
        let metadata = entries.into_iter().collect();
        let open = SessionOpen {
            metadata,
            ..SessionOpen::default()
        };
        bad.push((what, "open.metadata", open));
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
