//! grpcurl, for tests of what the pages show.

use std::{env, ffi::OsString, path::PathBuf, process::Command};

/// Returns a search path with grpcurl in it. `tests/tools` builds it if it is missing.
///
/// # Panics
///
/// If it can't be built.
pub fn path_with_grpcurl() -> OsString {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tools");
    let made = Command::new(script).arg("grpcurl").status();
    let made = made.expect("tests/tools can be run");
    assert!(made.success(), "tests/tools grpcurl: {made}");
    let tools = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/tools");
    let tools = PathBuf::from(tools);
    let home = PathBuf::from(env::var_os("HOME").unwrap_or_default());
    let path = env::var_os("PATH").unwrap_or_default();
    let directories = env::split_paths(&path).chain([home.join("go/bin"), tools]);
    env::join_paths(directories).expect("no directory has a colon in its name")
}
