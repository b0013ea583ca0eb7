//! Real clients of Connect and gRPC-Web: curl, connect-go, connect-es in Node, and connect-web in Chromium, against a coordinator with
//! TLS, tokens and permissions.
//!
//! Each client is a program in `tests/clients/connect/clients` that acquires, is refused, renews, releases and watches, and prints a line for
//! each way in which that worked. A client whose toolchain is missing is skipped, and said to be.

mod program;
mod site;

use std::time::Duration;

use program::PROGRAMS;
use site::Site;

use crate::skipped;

/// Longest time until a coordinator knows that a watcher is gone.
const GONE: Duration = Duration::from_secs(10);

#[test]
fn every_client_acquires_renews_watches_and_releases() {
    let mut running = Vec::new();
    for program in PROGRAMS {
        match (program.start)() {
            Ok(started) => running.push((program, started)),
            Err(missing) => skipped(format!("{}: {missing}", program.name)),
        }
    }
    let origins = running
        .iter_mut()
        .filter(|(program, _)| program.is_page)
        .map(|(_, started)| started.line());
    let site = Site::start(&origins.collect::<Vec<_>>());
    for (program, started) in running {
        let worked = started.finish(&site.described_to(program.name));
        assert_eq!(worked, program.ways, "{}", program.name);
        println!("{}: {}", program.name, worked.join(", "));
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    // All clients have gone away from their streams.
    runtime.block_on(site.coordinator.until_zero(["leasehold_watchers"], GONE));
}
