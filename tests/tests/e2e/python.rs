//! The API without our Rust client: a Python program on stubs that it generates from `proto/`.

use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use leasehold_proto::v1::session_response::Response;
use leasehold_tests::{
    ChildProcess, Coordinator, RawCandidate, RawSession, RedisServer, python, raw::PROMPT, report,
};

const LIMIT: Duration = Duration::from_secs(60);

fn program(mode: &str, endpoint: &str) -> ChildProcess {
    let mut command = Command::new(python::interpreter());
    command
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/python/session.py"))
        .args([mode, endpoint.trim_start_matches("http://")])
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    ChildProcess::spawn("session.py", command)
}

#[tokio::test]
async fn a_python_program_on_generated_stubs_uses_every_part_of_a_session() {
    let redis = RedisServer::start();
    let coordinator = Coordinator::process().store(redis.url()).start();
    let endpoint = coordinator.endpoint();
    let steps = [
        "opened",
        "heartbeat acknowledged",
        "granted",
        "queued at 1",
        "granted after waiting",
        "busy",
        "lost LOST_REASON_FORCED",
        "not released after the loss",
        "released",
        "closed",
    ];
    walks_through("tour", endpoint, &steps).await;
}

async fn walks_through(mode: &'static str, endpoint: String, steps: &[&str]) {
    let mut program = tokio::task::spawn_blocking(move || program(mode, &endpoint))
        .await
        .unwrap();
    let mut lines = program.take_lines();
    for step in steps {
        let (_, line) = lines.next(LIMIT).await.expect("the program goes on");
        assert_eq!(line, *step);
    }
    assert!(program.wait(PROMPT).await.success());
}

#[tokio::test]
async fn a_python_program_on_generated_stubs_uses_every_part_of_an_election() {
    let redis = RedisServer::start();
    let coordinator = Coordinator::process().store(redis.url()).start();
    let steps = [
        "nobody leads",
        "elected",
        "waiting at 1",
        "proclaimed",
        "elected after waiting",
        "lost LOST_REASON_FORCED",
        "nobody leads again",
    ];
    walks_through("elect", coordinator.endpoint(), &steps).await;
}

#[tokio::test]
async fn a_python_program_that_leads_is_followed_when_it_is_killed() {
    let redis = RedisServer::start();
    let coordinator = Coordinator::process().store(redis.url()).start();
    let endpoint = coordinator.endpoint();
    let mut program = tokio::task::spawn_blocking(move || program("lead", &endpoint))
        .await
        .unwrap();
    let mut lines = program.take_lines();
    let (_, line) = lines.expect("leading ", LIMIT).await;
    let token: i64 = line.trim_start_matches("leading ").parse().unwrap();

    let channel = coordinator.channel().await;
    let mut next = RawCandidate::campaign(channel, "python/led", b"next", LIMIT).await;
    assert_eq!(next.campaigning().position, 1);
    let killed = Instant::now();
    program.kill();
    let term = next.elected(PROMPT).await;
    report(format!(
        "from the kill of a Python leader to the next that leads: {:?}",
        term.at - killed
    ));
    assert!(term.token > token);
}

#[tokio::test]
async fn what_a_python_program_holds_is_released_when_it_is_killed() {
    let redis = RedisServer::start();
    let coordinator = Coordinator::process().store(redis.url()).start();
    let endpoint = coordinator.endpoint();
    let mut waiter = RawSession::open(&endpoint, Duration::from_secs(120)).await;
    let mut program = tokio::task::spawn_blocking(move || program("hold", &endpoint))
        .await
        .unwrap();
    let mut lines = program.take_lines();
    let (_, line) = lines.expect("holding ", LIMIT).await;
    let token: i64 = line.trim_start_matches("holding ").parse().unwrap();

    let id = waiter.ask("python/held", None).await;
    assert_eq!(waiter.queued(id).await, 1);
    let killed = Instant::now();
    program.kill();
    let Response::Granted(granted) = waiter.answer(id, PROMPT).await else {
        panic!("not granted");
    };
    report(format!(
        "from the kill of a Python holder to the next grant: {:?}",
        killed.elapsed()
    ));
    assert!(granted.locks[0].fencing_token > token);
}
