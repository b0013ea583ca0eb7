//! Python environment with the packages that the tests need.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

const REQUIREMENTS: &str = include_str!("../python/requirements.txt");

/// Returns the Python interpreter of a virtual environment below `target/` that has `tests/python/requirements.txt` installed.
/// The first test that asks makes it, and it is kept while the requirements stay the same.
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
        let environment = target.join("python");
        let stamp = environment.join("requirements.txt");
        if fs::read_to_string(&stamp).is_ok_and(|made_for| made_for == REQUIREMENTS) {
            return environment.join("bin/python");
        }
        // On Debian: apt-get install python3-venv.
        run(Command::new("python3")
            .args(["-m", "venv", "--clear"])
            .arg(&environment));
        run(Command::new(environment.join("bin/python"))
            .args(["-m", "pip", "install", "--quiet", "--requirement"])
            .arg(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/python/requirements.txt"
            )));
        fs::write(&stamp, REQUIREMENTS).expect("the stamp can be written");
        environment.join("bin/python")
    })
}

fn run(command: &mut Command) {
    match command.output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => panic!(
            "{command:?} failed: {}\n{}{}\nOn Debian, `apt-get install python3-venv` provides environments.",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        ),
        Err(error) => panic!("failed to run {command:?}: {error}"),
    }
}
