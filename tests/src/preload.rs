//! Libraries that a program under test loads before the C library, so that a function of its is another one.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Compiles C into a library `name` in a directory, and returns its path, for `LD_PRELOAD`.
///
/// # Panics
///
/// If there is no C compiler, or the code is not C.
pub(crate) fn compile(directory: &Path, name: &str, code: &str) -> PathBuf {
    let source = directory.join(name).with_extension("c");
    std::fs::write(&source, code).expect("a file can be written");
    let library = directory.join(name).with_extension("so");
    let output = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .args([&library, &source])
        .output()
        .expect("failed to run cc: is it installed? On Debian: apt-get install gcc");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    library
}
