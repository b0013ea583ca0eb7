//! The API without our Rust client: a Python program on stubs that it generates from `proto/`.

use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use leasehold_proto::v1::session_response::Response;
use leasehold_tests::{
    ChildProcess, Coordinator, RawCandidate, RawSession, RedisServer, python, raw::PROMPT, report,
};
use rustix::time::{ClockId, clock_gettime};

use crate::has;

const LIMIT: Duration = Duration::from_secs(60);

/// The clock of `tests/clients/python/session.py`.
const CLOCK: ClockId = {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let clock = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let clock = ClockId::Monotonic;
    clock
};

fn program(mode: &str, endpoint: &str) -> ChildProcess {
    let mut command = Command::new(python::interpreter());
    command
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/clients/python/session.py"
        ))
        .arg(mode)
        .args(endpoint.strip_prefix("http://"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    ChildProcess::spawn("session.py", command)
}

#[tokio::test]
async fn a_python_program_on_generated_stubs_uses_every_part_of_a_session() {
    if !has(&["python3"]) {
        return;
    }
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
        "given up",
        "lost LOST_REASON_FORCED",
        "not released after the loss",
        "released",
        "eight threads took turns",
        "closed",
    ];
    walks_through("tour", endpoint, &steps).await;
}

#[tokio::test]
async fn a_python_program_counts_deadlines_from_when_heartbeats_were_sent() {
    if !has(&["python3"]) {
        return;
    }
    walks_through("check", String::new(), &["checked"]).await;
}

/// A `Session` in Python gives its lock up by its own clock before anybody else is granted it, while its coordinator is silent.
#[tokio::test]
async fn a_python_program_takes_its_lock_for_lost_before_another_is_granted_it() {
    if !has(&["python3"]) {
        return;
    }
    let redis = RedisServer::start();
    let mut silent = Coordinator::process().store(redis.url()).start();
    let other = Coordinator::process().store(redis.url()).start();
    let endpoint = silent.endpoint();
    let program = tokio::task::spawn_blocking(move || program("guard", &endpoint));
    let mut program = program.await.unwrap();
    let mut lines = program.take_lines();
    let (_, line) = lines.expect("holding ", LIMIT).await;
    let token: i64 = line.trim_start_matches("holding ").parse().unwrap();
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
    let now = clock_gettime(CLOCK);
    let now = Duration::new(now.tv_sec.cast_unsigned(), now.tv_nsec.try_into().unwrap());
    assert!(granted.lock.fencing_token > token);
    assert!(
        deadline < now,
        "the deadline was {:?} after the next grant",
        deadline - now
    );
    report(format!("lost {:?} before the next grant", now - deadline));
    assert!(program.wait(PROMPT).await.success());
    silent.child().cont();
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
    if !has(&["python3"]) {
        return;
    }
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
    if !has(&["python3"]) {
        return;
    }
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
async fn locks_of_a_python_program_are_released_when_it_is_killed() {
    if !has(&["python3"]) {
        return;
    }
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
