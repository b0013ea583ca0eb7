//! `leasehold run`: ends the command when the lock ends.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use leasehold_proto::v1::{GetLockRequest, admin_service_client::AdminServiceClient};
use leasehold_tests::{
    ChildProcess, Coordinator, Latencies, RedisServer, binaries, raw::connect, report, wait,
};

const LIMIT: Duration = Duration::from_secs(30);

fn run(endpoint: &str, name: &str, script: &str) -> ChildProcess {
    let mut command = Command::new(binaries::path("leasehold"));
    command
        .args([
            "--endpoint",
            endpoint,
            "run",
            name,
            "--",
            "sh",
            "-c",
            script,
        ])
        .stdin(Stdio::null());
    ChildProcess::spawn("leasehold run", command)
}

fn lines(file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().map(ToOwned::to_owned).collect()
}

/// Kills a `run` while another waits, and checks who wrote when. The file has a line for each write.
async fn kill_one(endpoint: String, name: String, file: PathBuf) -> Duration {
    let path = file.display();
    let mut first = run(
        &endpoint,
        &name,
        &format!("while :; do echo first >> {path}; sleep 0.002; done"),
    );
    wait::until("the first child to write", LIMIT, || async {
        lines(&file).first().cloned().ok_or("nothing")
    })
    .await;
    let _second = run(
        &endpoint,
        &name,
        &format!("echo second >> {path}; sleep 60"),
    );
    let admin = AdminServiceClient::new(connect(&endpoint).await);
    wait::until("the second run to wait", LIMIT, || {
        let (mut admin, name) = (admin.clone(), name.clone());
        async move {
            let view = admin
                .get_lock(GetLockRequest { name })
                .await
                .unwrap()
                .into_inner();
            let lock = view.lock.unwrap();
            if lock.waiter_count == 1 {
                Ok(())
            } else {
                Err(lock.waiter_count)
            }
        }
    })
    .await;
    let killed = Instant::now();
    first.kill();
    wait::until("the second child to write", LIMIT, || async {
        let lines = lines(&file);
        if lines.iter().any(|line| line == "second") {
            Ok(())
        } else {
            Err(lines.len())
        }
    })
    .await;
    let took = killed.elapsed();
    // Were the first child still there, it would write fifty times more.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let lines = lines(&file);
    let second = lines.iter().position(|line| line == "second").unwrap();
    assert!(
        second > 0 && second == lines.len() - 1,
        "{name}: the first wrote after the second"
    );
    took
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_write_of_a_killed_run_comes_before_the_next_ones_first() {
    kill(1, 5).await;
}

/// Kills runs one batch after the other: each waits for the lock-delay of two seconds.
pub(super) async fn kill(batches: usize, at_a_time: usize) {
    let redis = RedisServer::start();
    let coordinator = Coordinator::process().store(redis.url()).start();
    let directory = tempfile::tempdir().unwrap();
    let mut took = Latencies::new("from the kill of a run to the next one's first write");
    for batch in 0..batches {
        let rounds = (0..at_a_time).map(|number| {
            let file = directory.path().join(format!("{batch}-{number}"));
            let name = format!("run/{batch}-{number}");
            kill_one(coordinator.endpoint(), name, file)
        });
        for round in join_all(rounds).await {
            took.record(round);
        }
    }
    report(&took);
}
