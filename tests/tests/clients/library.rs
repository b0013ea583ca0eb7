//! Client libraries that have a driver, and how to start each.

use std::{path::PathBuf, process::Command};

use leasehold_tests::binaries;

/// A client library with a driver.
pub(crate) struct Library {
    /// Name in tests.
    pub(crate) name: &'static str,
    /// Title in the table.
    pub(crate) title: &'static str,
    /// Returns the command that starts the driver, or why it can't be started here. What must be built is built before.
    pub(crate) driver: fn() -> Result<Vec<PathBuf>, String>,
}

/// All libraries, in the order of the table.
pub(crate) const LIBRARIES: &[Library] = &[Library {
    name: "rust",
    title: "Rust",
    driver: || Ok(vec![binaries::path("leasehold-driver")]),
}];

/// Returns the command of a line of words.
pub(crate) fn command(words: &[PathBuf]) -> Command {
    let (program, arguments) = words.split_first().expect("a driver has a program");
    let mut command = Command::new(program);
    command.args(arguments);
    command
}
