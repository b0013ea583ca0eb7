//! Tests of the programs in `client/examples`: each does its work against a real coordinator.

use leasehold_tests::{Coordinator, binaries};
use tokio::process::Command;

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
        ("rate", "7 workers are done"),
    ] {
        let coordinator = Coordinator::in_process();
        let program = tokio::task::block_in_place(|| binaries::example(name));
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
