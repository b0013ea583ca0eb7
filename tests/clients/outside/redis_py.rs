//! Lock of redis-py, which is the key that Leasehold's is: each excludes the other.

use std::{io::Write, process::Stdio, time::Duration};

use leasehold_proto::v1::AcquireOutcome;
use leasehold_tests::{ChildProcess, Coordinator, RawSession, RedisServer, raw::PROMPT, tools};

const NAME: &str = "row 5/python";
const LIMIT: Duration = Duration::from_secs(10);

/// Checks that a program that knows nothing of Leasehold holds the lock.
async fn is_foreign(session: &mut RawSession) {
    let id = session.ask(NAME, Some(Duration::ZERO)).await;
    let busy = session.not_granted(id, PROMPT).await;
    assert_eq!(busy.outcome(), AcquireOutcome::Busy);
    assert!(busy.holder.is_some_and(|holder| holder.foreign));
}

#[tokio::test]
async fn row_05_the_lock_of_redis_py_excludes_us_and_we_exclude_it() {
    needs!("python3");
    let server = RedisServer::start();
    let coordinator = Coordinator::process().store(server.url()).start();
    let mut command = tools::python("redis_py_lock.py");
    command
        .arg(server.url())
        .arg(format!("lock:{NAME}"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut session = RawSession::open(&coordinator.endpoint(), LIMIT).await;
    session.keep_alive(Duration::from_secs(2));

    let mut program = ChildProcess::spawn("redis_py_lock.py", command);
    let mut lines = program.take_lines();
    let mut orders = program.take_stdin();
    let mut order = |order: &str| writeln!(orders, "{order}").unwrap();

    order("try");
    lines.expect("acquired True", LIMIT).await;
    is_foreign(&mut session).await;
    let waiting = session.ask(NAME, None).await;
    session.queued(waiting).await;
    order("release");
    lines.expect("released True", LIMIT).await;
    let ours = session.granted(waiting, PROMPT).await;

    order("try");
    lines.expect("acquired False", LIMIT).await;
    order("release");
    lines.expect("released False", LIMIT).await;
    // It polls until we let it in.
    order("wait");
    lines.expect("waiting", LIMIT).await;
    assert!(session.release(&ours.lock).await);
    lines.expect("acquired True", LIMIT).await;
    is_foreign(&mut session).await;
}
