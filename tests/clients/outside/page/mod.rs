//! Live page of the admin port, in Chromium: two coordinators on one Redis server without tokens, and a third with tokens and
//! permissions.
//!
//! The scenarios are programs in `tests/clients/page`, which use the page as operators do: with the mouse, and by keyboard alone. Where Node
//! or Chromium is missing, they are skipped, and said to be. With `PICTURES`, a folder, they take pictures of the page instead.

mod site;

use leasehold_tests::node::{self, Started};
use site::Site;
use tokio::runtime::Runtime;

/// Scenarios, in alphabetical order.
const SCENARIOS: [&str; 9] = [
    "endSession",
    "findNoFaults",
    "followElection",
    "followLocks",
    "forceRelease",
    "obeyPermissions",
    "scroll",
    "showOverview",
    "useKeyboard",
];

#[test]
fn the_live_page_does_what_operators_ask_of_it() {
    let command = match node::with_chromium("page/main.mjs") {
        Ok(command) => command,
        Err(missing) => {
            crate::skipped(missing);
            return;
        }
    };
    // Its threads keep the sessions alive meanwhile.
    let runtime = Runtime::new().unwrap();
    let site = runtime.block_on(Site::start());
    let mut worked = Started::new(command).finish(&site.described());
    worked.sort();
    if std::env::var_os("PICTURES").is_none() {
        assert_eq!(worked, SCENARIOS);
    }
    println!("the live page: {}", worked.join(", "));
}
