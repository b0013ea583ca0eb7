//! Test of the demonstration. It needs `redis-server`, and the coordinator beside it in the target directory (`cargo
//! build -p leasehold-server`).

#![expect(clippy::panic, reason = "tests fail by panicking")]

use std::process::Command;

#[test]
fn the_demonstration_comes_out_as_promised() {
    let program = env!("CARGO_BIN_EXE_leasehold-example-scheduler");
    // Slower than by default: the machine may be busy.
    let output = Command::new(program)
        .args(["--period", "200", "--kills", "3"])
        .output();
    let output = output.unwrap_or_else(|error| panic!("failed to run {program}: {error}"));
    let report = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{}\n{report}\n{errors}",
        output.status
    );
}
