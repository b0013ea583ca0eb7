//! Programs from outside: browsers, curl, PHP, Python, and the clients of Connect and gRPC-Web in other languages, against real
//! coordinators. Each test whose program is missing prints that it is skipped.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and these say what they skip"
)]

/// Ends a test, and says so, if one of these programs is missing.
macro_rules! needs {
    ($($program:literal),+) => {
        if !crate::has(&[$($program),+]) {
            return;
        }
    };
}

mod announcement;
mod calls;
mod connect_clients;
mod connect_conformance;
mod curl;
mod leader;
mod lock_script;
mod openapi;
mod page;
mod php;
mod proxies;
mod python;
mod readme;
mod redis_py;
mod websocket_example;

use std::{fmt::Display, io::Write, thread};

use leasehold_tests::tools::installed;

/// Prints that a test is skipped, past the test harness, which would swallow what a passing test prints.
fn skipped(missing: impl Display) {
    let test = thread::current();
    let test = test.name().unwrap_or_default();
    // Nobody is left to tell if standard error is closed.
    let _ = writeln!(std::io::stderr(), "skipped {test}, because {missing}");
}

/// Returns whether each of these programs is installed, and prints the first that is not.
fn has(programs: &[&str]) -> bool {
    let missing = programs.iter().find_map(|program| installed(program).err());
    if let Some(missing) = &missing {
        skipped(missing);
    }
    missing.is_none()
}

/// Returns whether grpcurl is installed, or can be built.
fn has_grpcurl() -> bool {
    installed("grpcurl").is_ok() || has(&["go"])
}
