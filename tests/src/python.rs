//! Python environment with the packages that the tests need.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

/// Returns the Python interpreter of a virtual environment below `target/` that has `tests/python/requirements.txt` installed.
/// `tests/tools` makes it if it is missing, and anew if the requirements change.
///
/// # Panics
///
/// If it can't be made: Python 3 with `venv` must be installed, and a package index be in reach the first time.
pub fn interpreter() -> &'static Path {
    static INTERPRETER: OnceLock<PathBuf> = OnceLock::new();
    INTERPRETER.get_or_init(|| {
        let target = match env::var_os("CARGO_TARGET_DIR") {
            Some(target) => PathBuf::from(target),
            None => PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../target")),
        };
        fs::create_dir_all(&target).expect("target can be made");
        // Two test processes may run at a time.
        let lock = fs::File::create(target.join("python.lock")).expect("target can be written to");
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive)
            .expect("the file can be locked");
        let made = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tools"))
            .arg("python")
            .status()
            .expect("tests/tools can be run");
        assert!(made.success(), "tests/tools python: {made}");
        target.join("python/bin/python")
    })
}
