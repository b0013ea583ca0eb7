//! Tests of the programs in `client/examples`: each does its work against a real coordinator.

use std::process::Stdio;

use leasehold_tests::{
    ChildProcess, Coordinator, binaries,
    http::{Http, Version},
    process::Lines,
    wait,
};
use tokio::process::Command;

use crate::LIMIT;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_example_does_what_it_shows() {
    for (name, last_line) in [
        ("lock", "released"),
        ("try_with_lock", "sold out"),
        ("several_locks", "2 transfers done"),
        ("semaphore", "1 + 1 + 2 of 5"),
        ("election", "ran 3 jobs and resigned"),
        ("watch", "orders/42: Released"),
        ("asked", "asked 1 holder"),
        ("members", "members: web-1"),
        ("barrier", "all have met"),
        ("once_per_period", "reminded again in the next period"),
        ("recipes", "all recipes work"),
        ("rate", "7 workers are done"),
        ("read_mostly_cache", "every reader saw a whole list"),
        ("worker_pool", "made 40 thumbnails"),
    ] {
        let coordinator = Coordinator::in_process();
        let program = binaries::example(name);
        let output = Command::new(program)
            .arg(coordinator.endpoint())
            .output()
            .await
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {said}{complaint}");
        let said = said.lines().last().unwrap_or_default();
        assert!(said.ends_with(last_line), "{name}: {said}");
    }
}

/// Replica of `client/examples/web_service.rs`.
struct Replica {
    process: ChildProcess,
    /// Kept: it could not print without a reader.
    _lines: Lines,
    address: String,
}

impl Replica {
    async fn start(coordinator: &Coordinator) -> Self {
        let program = binaries::example("web_service");
        let mut command = std::process::Command::new(program);
        command
            .args([&coordinator.endpoint(), "127.0.0.1:0"])
            .stdout(Stdio::piped());
        let mut process = ChildProcess::spawn("web_service", command);
        let mut lines = process.take_lines();
        let (_, line) = lines.expect("serving on ", LIMIT).await;
        let address = line.trim_start_matches("serving on ").to_owned();
        Self {
            process,
            _lines: lines,
            address,
        }
    }

    /// Waits until it says that `leader` leads.
    async fn until_led_by(&self, leader: &str) {
        let http = Http::at(&self.address, Version::One);
        wait::until("the leader to be known", LIMIT, || async {
            let answer = http.bare("GET", "/leader", &[]).await;
            (answer.body == leader).then_some(()).ok_or(answer)
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_of_the_web_service_lead_one_after_the_other() {
    let coordinator = Coordinator::in_process();
    let mut first = Replica::start(&coordinator).await;
    first.until_led_by(&first.address).await;
    let mut second = Replica::start(&coordinator).await;
    second.until_led_by(&first.address).await;

    first.process.kill();
    second.until_led_by(&second.address).await;
    let third = Replica::start(&coordinator).await;
    second.process.terminate();
    assert!(second.process.wait(LIMIT).await.success());
    third.until_led_by(&third.address).await;
}
