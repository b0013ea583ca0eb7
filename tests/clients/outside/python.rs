//! The API without our Rust client: a Python program on stubs that it generates from `proto/`.

use std::{process::Stdio, time::Duration};

use leasehold_tests::{
    ChildProcess, Coordinator, RawSession, RedisServer, clock::boot_time, process::Lines,
    raw::PROMPT, report, tools,
};

const LIMIT: Duration = Duration::from_secs(60);

/// Starts the program, which prints a line for each step.
fn program(mode: &str, endpoint: &str) -> (ChildProcess, Lines) {
    let mut command = tools::python("session.py");
    command
        .arg(mode)
        .args(endpoint.strip_prefix("http://"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let mut program = ChildProcess::spawn("session.py", command);
    let lines = program.take_lines();
    (program, lines)
}

async fn walks_through(mode: &str, endpoint: &str, steps: &[&str]) {
    let (mut program, mut lines) = program(mode, endpoint);
    for step in steps {
        let (_, line) = lines.next(LIMIT).await.expect("the program goes on");
        assert_eq!(line, *step);
    }
    assert!(program.wait(PROMPT).await.success());
}

#[tokio::test]
async fn a_python_program_on_generated_stubs_uses_every_part_of_a_session() {
    needs!("python3");
    let redis = RedisServer::start();
    let coordinator = Coordinator::process().store(redis.url()).start();
    let steps = [
        "opened",
        "heartbeat acknowledged",
        "granted",
        "queued at 1",
        "granted after waiting",
        "busy",
        "given up",
        "lost LOST_REASON_FORCED",
        "not released after the loss",
        "released",
        "eight threads took turns",
        "closed",
    ];
    walks_through("tour", &coordinator.endpoint(), &steps).await;
}

#[tokio::test]
async fn a_python_program_counts_deadlines_from_when_heartbeats_were_sent() {
    needs!("python3");
    walks_through("check", "", &["checked"]).await;
}

#[tokio::test]
async fn a_python_program_takes_its_lock_for_lost_before_another_is_granted_it() {
    needs!("python3");
    let redis = RedisServer::start();
    let mut silent = Coordinator::process().store(redis.url()).start();
    let other = Coordinator::process().store(redis.url()).start();
    let (mut program, mut lines) = program("guard", &silent.endpoint());
    let (_, line) = lines.expect("holding ", LIMIT).await;
    let former: i64 = line.trim_start_matches("holding ").parse().unwrap();
    let mut waiter = RawSession::open(&other.endpoint(), Duration::from_secs(120)).await;
    let id = waiter.ask("python/guarded", None).await;
    waiter.queued(id).await;

    // Its heartbeats have moved the deadline; from here on, nobody answers them.
    lines.expect("kept", LIMIT).await;
    silent.child().stop();
    let (_, line) = lines.expect("lost ", LIMIT).await;
    let (deadline, reason) = line.trim_start_matches("lost ").split_once(' ').unwrap();
    assert_eq!(reason, "its deadline has passed");
    let deadline = Duration::from_nanos(deadline.parse().unwrap());
    let granted = waiter.granted(id, LIMIT).await;
    let now = boot_time();
    assert!(granted.lock.fencing_token > former);
    assert!(
        deadline < now,
        "the deadline was {:?} after the next grant",
        deadline - now
    );
    report(format!("lost {:?} before the next grant", now - deadline));
    assert!(program.wait(PROMPT).await.success());
    silent.child().cont();
}

#[tokio::test]
async fn a_python_program_on_generated_stubs_uses_every_part_of_an_election() {
    needs!("python3");
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
    walks_through("elect", &coordinator.endpoint(), &steps).await;
}
