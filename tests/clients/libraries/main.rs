//! Conformance of client libraries: scenarios that every library passes, with a driver of each library as a process.
//! `docs/conformance.md` has the drivers' protocol, and the table of libraries and scenarios that this suite checks.
//!
//! Two back ends: Redis with two coordinators, which scenarios stop, kill and drain; and a scripted coordinator, which plays exact
//! orders of messages. Each scenario has a mutant, a driver that does something wrong, and must fail it.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and this one is its own harness"
)]

/// Picks the contents of requests of this kind.
macro_rules! of_kind {
    ($kind:ident) => {
        |request| match request {
            leasehold_proto::v1::session_request::Request::$kind(it) => Some(it),
            _ => None,
        }
    };
}

mod driver;
mod harness;
mod library;
mod mutant;
mod scenarios;
mod scripted;
mod site;
mod table;
mod world;

use std::process::ExitCode;

fn main() -> ExitCode {
    harness::main()
}
