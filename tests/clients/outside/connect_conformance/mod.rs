//! Public conformance suite of Connect, gRPC-Web and gRPC, against its service behind the coordinator's listener and layers
//! (`tests/clients/connect`).
//!
//! The cases that fail are listed in `tests/clients/connect/known-failing.txt`, each with its reason. One that passes, or another that fails,
//! fails this test.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use leasehold_tests::{binaries, tools};

/// Most cases that may be known to fail: one in so many.
const KNOWN: usize = 100;

#[test]
fn the_public_suite_passes() {
    // Its runner is built by Go.
    needs!("go");
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let target = tools::make("connectconformance");
    let suite = tests.join("clients/connect");
    let known = suite.join("known-failing.txt");
    let output = Command::new(target.join("tools/connectconformance"))
        .args(["--mode", "server", "--conf"])
        .arg(suite.join("suite.yaml"))
        .arg("--known-failing")
        .arg(format!("@{}", known.display()))
        .arg("--")
        .arg(binaries::path("connect-conformance"))
        .stderr(Stdio::inherit())
        .output()
        .expect("the runner can be run");
    let shown = String::from_utf8_lossy(&output.stdout);
    println!("{shown}");
    assert!(output.status.success(), "the runner: {}", output.status);

    let number = |before: &str, after: &str| -> usize {
        let (_, rest) = shown.split_once(before).unwrap_or_default();
        let (number, _) = rest.split_once(after).unwrap_or_default();
        number.parse().unwrap_or_default()
    };
    let total = number("Total cases: ", "\n");
    let expected = number("(Another ", " failed as expected");
    assert!(total > 0, "the runner ran no cases");
    assert!(
        expected * KNOWN < total,
        "{expected} of {total} cases are known to fail"
    );
}
