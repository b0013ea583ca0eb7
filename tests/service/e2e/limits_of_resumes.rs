//! Limits on resumes of something that counts already.

use std::time::Duration;

use leasehold_proto::v1::{GrantedLock, SessionOpen, SessionResume};
use leasehold_tests::{
    Coordinator, RawSession, RedisServer,
    raw::{
        PROMPT, Resumed, connect, error_info, exclusive, fresh_owner_id, resume_hold, resume_wait,
        several, wire,
    },
    wait,
};
use rustix::process::Signal;
use tonic::Status;

const TTL: Duration = Duration::from_secs(60);
const WAIT: u64 = 1_000_000;

fn open(resume: Vec<SessionResume>) -> SessionOpen {
    SessionOpen {
        ttl: wire(TTL),
        disconnect_grace: wire(TTL),
        resume,
        ..SessionOpen::default()
    }
}

/// Opens a session with a long grace, or returns the refusal.
async fn try_open(
    endpoint: &str,
    resume: Vec<SessionResume>,
) -> Result<(RawSession, Resumed), Status> {
    let mut session = RawSession::stream(connect(endpoint).await).await.unwrap();
    let id = session.ask_open(open(resume)).await;
    let resumed = session.try_opened(id).await?;
    Ok((session, resumed))
}

/// Returns the reason, the setting and its limit from the refusal of a stream.
#[track_caller]
fn over(status: &Status) -> (String, String, String) {
    let info = error_info(status);
    let of = |key: &str| info.metadata[key].clone();
    (info.reason.clone(), of("setting"), of("limit"))
}

fn words(reason: &str, setting: &str, limit: &str) -> (String, String, String) {
    (reason.to_owned(), setting.to_owned(), limit.to_owned())
}

#[tokio::test]
async fn a_session_that_has_more_locks_than_it_might_have_by_now_is_resumed_with_all() {
    let redis = RedisServer::start();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("leasehold.toml");
    std::fs::write(&file, "max-locks-per-session = 4\n").unwrap();
    let mut coordinator = Coordinator::process()
        .store(redis.url())
        .arguments(["--config", file.to_str().unwrap()])
        .start();
    let endpoint = coordinator.endpoint();
    let mut other = RawSession::open(&endpoint, TTL).await;
    other.acquire("waited-for").await;
    let (mut before, _) = try_open(&endpoint, Vec::new()).await.unwrap();
    let mut resume = Vec::new();
    for name in ["one", "two", "three"] {
        resume.push(resume_hold(&before.acquire(name).await.lock));
    }
    let waits = before.ask_for(exclusive("waited-for")).await;
    let ticket = before.ticket(waits).await.ticket;
    resume.push(resume_wait("waited-for", &ticket, WAIT));

    let lower = "max-locks-per-session = 2\nmax-names-per-acquire = 1\n";
    std::fs::write(&file, lower).unwrap();
    coordinator.child().signal(Signal::HUP);
    let deadline = std::time::Instant::now() + PROMPT;
    loop {
        let id = other.ask_for(several(["x", "y"])).await;
        let refused = other.outcome(id, PROMPT).await;
        if format!("{refused:?}").contains("TOO_MANY_NAMES") {
            break;
        }
        assert!(std::time::Instant::now() < deadline, "{refused:?}");
        let leasehold_proto::v1::session_response::Response::Granted(granted) = refused else {
            panic!("{refused:?}");
        };
        for lock in granted.locks {
            assert!(other.release(&lock).await);
        }
    }

    let (mut session, resumed) = try_open(&endpoint, resume).await.unwrap();
    assert_eq!((resumed.holds().len(), resumed.places().len()), (3, 1));
    // What it asks for goes by the new limit.
    let id = session.ask_for(exclusive("more")).await;
    let refused = session.refusal(id, PROMPT).await;
    assert_eq!(
        (&*refused.reason, &*refused.metadata["limit"]),
        ("TOO_MANY_LOCKS", "2")
    );
    // Nobody ever might have so many.
    let mut too_many: Vec<_> = resumed.holds().values().map(resume_hold).collect();
    too_many.extend_from_within(..2);
    for resume in &mut too_many {
        resume.next_owner_id = leasehold_tests::raw::fresh_owner_id();
    }
    let status = try_open(&endpoint, too_many).await.unwrap_err();
    let expected = words("TOO_MANY_LOCKS", "max-locks-per-session", "4");
    assert_eq!(over(&status), expected);
    session.close().await;
}

#[tokio::test]
async fn a_session_that_is_resumed_counts_once() {
    for setting in ["max-sessions", "max-sessions-per-identity"] {
        let coordinator = Coordinator::in_process_with([&format!("--{setting}"), "2"]);
        let endpoint = coordinator.endpoint();
        let expected = words("TOO_MANY_SESSIONS", setting, "2");
        let (mut first, _) = try_open(&endpoint, Vec::new()).await.unwrap();
        let (second, _) = try_open(&endpoint, Vec::new()).await.unwrap();
        let (one, two) = (first.acquire("1").await.lock, first.acquire("2").await.lock);
        // While the first has its stream, it has its place.
        let status = try_open(&endpoint, vec![resume_hold(&one)]).await;
        assert_eq!(over(&status.unwrap_err()), expected);
        drop(first);
        // Whoever resumes nothing that is here has to wait for it to end.
        let status = try_open(&endpoint, Vec::new()).await;
        assert_eq!(over(&status.unwrap_err()), expected);
        let mut nobodys = resume_hold(&one);
        nobodys.owner_id = leasehold_tests::raw::fresh_owner_id();
        let status = try_open(&endpoint, vec![nobodys]).await;
        assert_eq!(over(&status.unwrap_err()), expected);

        // The stream's end may be heard a little later.
        let mut resumed = wait::until("a place for the resume", PROMPT, || async {
            let resume = vec![resume_hold(&one)];
            try_open(&endpoint, resume)
                .await
                .map(|(session, _)| session)
        })
        .await;
        // The kept one has something left, and counts for as long.
        let status = try_open(&endpoint, Vec::new()).await;
        assert_eq!(over(&status.unwrap_err()), expected);
        second.close().await;
        let status = try_open(&endpoint, Vec::new()).await;
        assert_eq!(over(&status.unwrap_err()), expected);
        let (rest, took) = try_open(&endpoint, vec![resume_hold(&two)]).await.unwrap();
        assert_eq!(took.only_hold().name, "2");
        // It has gone: whoever goes now makes room.
        rest.close().await;
        let (next, _) = wait::until("a place", PROMPT, || try_open(&endpoint, Vec::new())).await;
        next.close().await;
        resumed.heartbeat().await;
    }
}

/// Holds that there are not.
fn not_there(number: usize) -> Vec<SessionResume> {
    let hold = |number| {
        resume_hold(&GrantedLock {
            name: format!("lock/{number}"),
            owner_id: fresh_owner_id(),
            fencing_token: 1,
            ..GrantedLock::default()
        })
    };
    (0..number).map(hold).collect()
}

#[tokio::test]
async fn each_resume_counts_as_a_request_whether_there_was_something_to_resume_or_not() {
    for is_there in [true, false] {
        // What is owed takes seconds to be paid.
        let coordinator = Coordinator::in_process_with(["--max-requests-per-second", "10"]);
        let endpoint = coordinator.endpoint();
        let (mut before, _) = try_open(&endpoint, Vec::new()).await.unwrap();
        let names: Vec<String> = (0..60).map(|number| format!("held/{number}")).collect();
        let id = before
            .ask_for(several(names.iter().map(String::as_str)))
            .await;
        let held = before.granted_all(id, PROMPT).await;
        let resume = match is_there {
            true => held.iter().map(resume_hold).collect(),
            false => not_there(60),
        };
        let (mut session, resumed) = try_open(&endpoint, resume).await.unwrap();
        let expected = if is_there { (60, 0) } else { (0, 60) };
        assert_eq!((resumed.resumed.len(), resumed.refused.len()), expected);
        let id = session.ask("more", None).await;
        assert_eq!(session.refusal(id, PROMPT).await.reason, "RATE_LIMITED");
        // Whoever shows life keeps what it holds.
        session.heartbeat().await;
    }
}

#[tokio::test]
async fn a_large_resume_leaves_room_at_the_store() {
    let redis = RedisServer::start();
    let coordinator = Coordinator::process()
        .store(redis.url())
        .arguments(["--store-timeout", "30s"])
        .start();
    let mut session = RawSession::stream(coordinator.channel().await)
        .await
        .unwrap();
    redis.stop();
    let id = session.ask_open(open(not_there(2000))).await;
    let asked = async || {
        let metrics = coordinator.metrics().await;
        metrics.sum("leasehold_store_in_flight") + metrics.sum("leasehold_store_queue")
    };
    wait::until("the first to be asked for", PROMPT, || async {
        let asked = asked().await;
        if asked >= 256.0 { Ok(()) } else { Err(asked) }
    })
    .await;
    // A few more are of the coordinator itself.
    let asked = asked().await;
    assert!(asked < 300.0, "{asked}");
    redis.cont();
    let resumed = session.try_opened(id).await.unwrap();
    assert_eq!(resumed.refused.len(), 2000);
}
