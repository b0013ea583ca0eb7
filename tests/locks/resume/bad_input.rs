//! Resumes that are refused as a whole: a bad entry ends the stream, and nothing is touched.

use std::time::Duration;

use leasehold_proto::v1::{
    LostReason, ResumedHold, ResumedWait, SessionOpen, SessionResume, session_request::Request,
    session_resume::What,
};
use leasehold_tests::{
    Coordinator, RawSession,
    raw::{PROMPT, connect, exclusive, fresh_owner_id, reason, resume_hold, resume_wait, wire},
};
use tonic::{Code, Status};
use tonic_types::StatusExt;

const TTL: Duration = Duration::from_secs(10);
const LIMIT: usize = 3;

fn open(resume: Vec<SessionResume>) -> SessionOpen {
    SessionOpen {
        ttl: wire(TTL),
        resume,
        ..SessionOpen::default()
    }
}

fn hold(name: &str) -> SessionResume {
    SessionResume {
        name: name.to_owned(),
        owner_id: fresh_owner_id(),
        tried_owner_ids: Vec::new(),
        next_owner_id: fresh_owner_id(),
        what: token(1),
    }
}

fn token(fencing_token: i64) -> Option<What> {
    Some(What::Hold(ResumedHold {
        fencing_token,
        hold_count: 1,
    }))
}

fn wait(seconds: i64, nanos: i32) -> Option<What> {
    Some(What::Wait(ResumedWait {
        acquire_request_id: 1000,
        wait: Some(prost_types::Duration { seconds, nanos }),
    }))
}

fn with_grace(seconds: i64) -> SessionOpen {
    SessionOpen {
        disconnect_grace: Some(prost_types::Duration { seconds, nanos: 0 }),
        ..open(Vec::new())
    }
}

type Mistake = (&'static str, fn(&mut SessionResume));
type Repetition = (&'static str, fn(&mut SessionResume, &SessionResume));

/// Mistakes of an entry, and the field that the error names.
const MISTAKES: [Mistake; 19] = [
    ("name", |it| it.name = String::new()),
    ("name", |it| it.name = "n".repeat(513)),
    ("name", |it| it.name = "a\nb".to_owned()),
    ("owner_id", |it| it.owner_id.clear()),
    ("owner_id", |it| it.owner_id.truncate(15)),
    ("owner_id", |it| it.owner_id.push(0)),
    ("next_owner_id", |it| it.next_owner_id.clear()),
    ("next_owner_id", |it| it.next_owner_id.push(0)),
    // The owner id, and one that was tried.
    ("next_owner_id", |it| it.next_owner_id = it.owner_id.clone()),
    ("next_owner_id", |it| {
        it.tried_owner_ids.push(it.next_owner_id.clone());
    }),
    ("tried_owner_ids[1]", |it| {
        it.tried_owner_ids = vec![fresh_owner_id(), vec![1; 15]];
    }),
    ("tried_owner_ids", |it| {
        it.tried_owner_ids = vec![fresh_owner_id(); 65];
    }),
    ("hold", |it| it.what = None),
    ("hold.fencing_token", |it| it.what = token(0)),
    ("hold.fencing_token", |it| it.what = token(-1)),
    // A token that can't be.
    ("hold.fencing_token", |it| it.what = token((1 << 53) + 1)),
    ("wait.wait", |it| it.what = wait(-1, 0)),
    ("wait.wait", |it| it.what = wait(24 * 3600 + 1, 0)),
    ("wait.wait", |it| it.what = wait(0, 1_000_000_000)),
];

/// Mistakes of an entry that only the one before makes such.
const REPETITIONS: [Repetition; 5] = [
    ("next_owner_id", |it, before| {
        it.next_owner_id.clone_from(&before.next_owner_id);
    }),
    ("owner_id", |it, before| {
        it.owner_id.clone_from(&before.owner_id);
    }),
    // A chain.
    ("owner_id", |it, before| {
        it.owner_id.clone_from(&before.next_owner_id);
    }),
    ("tried_owner_ids[0]", |it, before| {
        it.tried_owner_ids.push(before.next_owner_id.clone());
    }),
    ("next_owner_id", |it, before| {
        it.next_owner_id.clone_from(&before.owner_id);
    }),
];

/// The field that the error names, and the `open`s.
type Case = (String, Vec<SessionOpen>);

fn cases() -> Vec<Case> {
    let second = |field: &str, first, bad| {
        let field = format!("open.resume[1].{field}");
        (field, vec![open(vec![first, bad])])
    };
    let mistakes = MISTAKES.map(|(field, spoil)| {
        let mut bad = hold("bad");
        spoil(&mut bad);
        second(field, hold("good"), bad)
    });
    let repetitions = REPETITIONS.map(|(field, spoil)| {
        let (before, mut bad) = (hold("again"), hold("again"));
        spoil(&mut bad, &before);
        second(field, before, bad)
    });
    let again = hold("again");
    let mut twice = hold("twice");
    twice.next_owner_id.clone_from(&again.next_owner_id);
    let more = SessionOpen {
        more: true,
        ..open(vec![again])
    };
    let waits = |id| resume_wait("waits", &fresh_owner_id(), id);
    let request_id = || "open.resume[0].wait.acquire_request_id".to_owned();
    let next_owner_id = "open.resume[1].next_owner_id".to_owned();
    let grace = || "open.disconnect_grace".to_owned();
    let others = [
        // Of an entry of the `open` before.
        (next_owner_id, vec![more, open(vec![twice])]),
        // That of the `open`, and none.
        (request_id(), vec![open(vec![waits(1)])]),
        (request_id(), vec![open(vec![waits(0)])]),
        second("wait.acquire_request_id", waits(7), waits(7)),
        (grace(), vec![with_grace(-1)]),
        // Longer than the TTL.
        (grace(), vec![with_grace(11)]),
    ];
    mistakes
        .into_iter()
        .chain(repetitions)
        .chain(others)
        .collect()
}

/// Returns the status of a stream that these messages fail to open.
async fn refused(coordinator: &Coordinator, opens: Vec<SessionOpen>) -> Status {
    let mut session = RawSession::stream(connect(&coordinator.endpoint()).await)
        .await
        .unwrap();
    for open in opens {
        session.ask_open(open).await;
    }
    session.end(PROMPT).await.unwrap_err()
}

#[tokio::test]
async fn entries_out_of_bounds_end_the_stream_and_touch_nothing() {
    let coordinator = Coordinator::in_process();
    let mut other = RawSession::open(&coordinator.endpoint(), TTL).await;
    let held = other.take_one(exclusive("good")).await;
    for (field, mut opens) in cases() {
        // A good entry among the bad ones is not carried out.
        if let Some(good) = opens[0]
            .resume
            .iter_mut()
            .find(|entry| entry.name == "good")
        {
            good.owner_id.clone_from(&held.owner_id);
        }
        let what = format!("{field} of {opens:?}");
        let status = refused(&coordinator, opens).await;
        assert_eq!(status.code(), Code::InvalidArgument, "{what}: {status:?}");
        let bad = status.get_details_bad_request().unwrap();
        let fields: Vec<_> = bad.field_violations.iter().map(|bad| &bad.field).collect();
        assert_eq!(fields, [&field], "{what}: {status:?}");
        assert_eq!(reason(&status), "INVALID_FIELD");
    }
    assert!(other.release(&held).await);
    other.close().await;
}

#[tokio::test]
async fn an_owner_id_that_was_used_here_is_no_next_one() {
    let coordinator = Coordinator::in_process();
    let mut old = RawSession::open(&coordinator.endpoint(), TTL).await;
    let held = old.take_one(exclusive("held")).await;
    let other = old.take_one(exclusive("other")).await;
    let resume = resume_hold(&held);
    let (mut new, resumed) =
        RawSession::resume(&coordinator.endpoint(), TTL, vec![resume.clone()]).await;
    // The same message once more, and an owner id that the coordinator gave.
    let mut given = resume_hold(&held);
    given.next_owner_id.clone_from(&other.owner_id);
    for resume in [resume, given] {
        let status = refused(&coordinator, vec![open(vec![hold("free"), resume])]).await;
        let bad = status.get_details_bad_request().unwrap();
        assert_eq!(
            bad.field_violations[0].field,
            "open.resume[1].next_owner_id"
        );
    }
    assert!(new.release(&resumed.only_hold()).await);
    assert!(old.release(&other).await);
    old.close().await;
    new.close().await;
}

#[tokio::test]
async fn no_more_is_resumed_than_a_session_may_have() {
    let limit = LIMIT.to_string();
    let coordinator = Coordinator::in_process_with(["--max-locks-per-session", &limit]);
    let entries = |count: usize| (0..count).map(|entry| hold(&format!("{entry}"))).collect();
    let more = SessionOpen {
        more: true,
        ..open(entries(LIMIT))
    };
    for opens in [vec![open(entries(LIMIT + 1))], vec![more, open(entries(1))]] {
        let status = refused(&coordinator, opens).await;
        assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
        assert_eq!(reason(&status), "TOO_MANY_LOCKS");
    }
    let mut old = RawSession::open(&coordinator.endpoint(), TTL).await;
    let mut resume = Vec::new();
    for number in 0..LIMIT {
        let held = old.take_one(exclusive(&format!("held/{number}"))).await;
        resume.push(resume_hold(&held));
    }
    let (mut new, resumed) = RawSession::resume(&coordinator.endpoint(), TTL, resume).await;
    assert_eq!(resumed.holds().len(), LIMIT);
    let id = new.ask_for(exclusive("one more")).await;
    assert_eq!(new.refusal(id, PROMPT).await.reason, "TOO_MANY_LOCKS");
    old.close().await;
    new.close().await;
}

#[tokio::test]
async fn an_open_with_more_must_be_followed_by_an_open() {
    let coordinator = Coordinator::in_process_with(["--handshake-timeout", "500ms"]);
    let more = SessionOpen {
        more: true,
        ..open(Vec::new())
    };
    let mut session = RawSession::stream(connect(&coordinator.endpoint()).await)
        .await
        .unwrap();
    session.ask_open(more.clone()).await;
    session.send(Request::Acquire(exclusive("a"))).await;
    let status = session.end(PROMPT).await.unwrap_err();
    assert_eq!(reason(&status), "NOT_OPEN");
    // Nor may it take for ever, however much comes.
    let mut session = RawSession::stream(connect(&coordinator.endpoint()).await)
        .await
        .unwrap();
    for _ in 0..8 {
        session.ask_open(more.clone()).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let status = session.end(PROMPT).await.unwrap_err();
    assert_eq!(reason(&status), "OPEN_TIMEOUT");
}

#[tokio::test]
async fn a_token_that_a_client_names_raises_no_floor() {
    let coordinator = Coordinator::in_process();
    let mut session = RawSession::open(&coordinator.endpoint(), TTL).await;
    let before = session.take_one(exclusive("before")).await;
    let hour = 3600 * 1_000_000;
    // The client names no hold at all, or one that stands, with another token than the store's.
    for (number, ahead) in [hour, 23 * hour, 48 * hour].into_iter().enumerate() {
        let named = before.fencing_token + ahead;
        let nobodys = SessionResume {
            what: token(named),
            ..hold("changed")
        };
        let (mut other, resumed) =
            RawSession::resume(&coordinator.endpoint(), TTL, vec![nobodys]).await;
        assert_eq!(resumed.refused.len(), 1);
        let own = session.take_one(exclusive(&format!("own/{number}"))).await;
        let mut resume = resume_hold(&own);
        let Some(What::Hold(hold)) = &mut resume.what else {
            panic!("{resume:?}")
        };
        hold.fencing_token = named;
        // With another token it is another grant, and given back.
        let (heir, resumed) = RawSession::resume(&coordinator.endpoint(), TTL, vec![resume]).await;
        assert_eq!(resumed.refused.len(), 1);
        assert_eq!(resumed.refused[0].reason(), LostReason::Taken);
        let again = other.take_one(exclusive(&own.name)).await;
        assert!((own.fencing_token + 1..named).contains(&again.fencing_token));
        let after = session
            .take_one(exclusive(&format!("after/{number}")))
            .await;
        assert!(
            after.fencing_token > own.fencing_token && after.fencing_token < named,
            "{} after {}, where a client named {named}",
            after.fencing_token,
            own.fencing_token
        );
        other.close().await;
        heir.close().await;
    }
    session.close().await;
}
