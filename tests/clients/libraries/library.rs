//! Client libraries that have a driver, and how to start each.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

use leasehold_tests::{binaries, tools};

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
impl Library {
    const fn new(
        name: &'static str,
        title: &'static str,
        driver: fn() -> Result<Vec<PathBuf>, String>,
    ) -> Self {
        Self {
            name,
            title,
            driver,
        }
    }
}

pub(crate) const LIBRARIES: &[Library] = &[
    Library::new("rust", "Rust", rust),
    Library::new("go", "Go", go),
    Library::new("python", "Python, asyncio", || python("asyncio")),
    Library::new("python_threads", "Python, threads", || python("sync")),
    Library::new("node", "Node", node),
    Library::new("java", "Java, blocking", || java("blocking")),
    Library::new("java_async", "Java, futures", || java("async")),
];

fn rust() -> Result<Vec<PathBuf>, String> {
    Ok(vec![binaries::path("leasehold-driver")])
}

/// Variable with the folder of the libraries, for copies in which a fault is planted.
const CLIENTS: &str = "CLIENTS_UNDER_TEST";

/// Returns the folder of a library, if it is there.
fn folder(library: &str) -> Result<PathBuf, String> {
    let ours = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../client");
    let clients = env::var_os(CLIENTS).map_or_else(ours, PathBuf::from);
    let folder = clients.join(library);
    match folder.exists() {
        true => Ok(folder),
        false => Err(format!("{} is not there", folder.display())),
    }
}

/// Says that a toolchain is missing, if it does not tell its version.
fn installed(program: &str, version: &str) -> Result<(), String> {
    let mut asked = Command::new(program);
    let asked = asked.arg(version).stdout(Stdio::null()).status();
    match asked {
        Ok(status) if status.success() => Ok(()),
        _ => Err(format!("{program} is not installed")),
    }
}

fn go() -> Result<Vec<PathBuf>, String> {
    installed("go", "version")?;
    let driver = binaries::target_directory().join("drivers/go");
    let mut build = Command::new("go");
    build
        .current_dir(folder("go")?)
        .args(["build", "-o"])
        .arg(&driver)
        .arg("./internal/driver");
    let built = build.status().expect("go can be run");
    assert!(built.success(), "failed to build the Go driver: {built}");
    Ok(vec![driver])
}

/// Returns the driver of one of the two interfaces.
fn python(interface: &str) -> Result<Vec<PathBuf>, String> {
    installed("python3", "--version")?;
    let folder = folder("python")?;
    let source = format!("PYTHONPATH={}", folder.join("src").display());
    Ok(vec![
        "env".into(),
        source.into(),
        tools::interpreter().to_owned(),
        folder.join("tests/driver.py"),
        interface.into(),
    ])
}

fn node() -> Result<Vec<PathBuf>, String> {
    installed("node", "--version")?;
    installed("npm", "--version")?;
    let target = binaries::target_directory();
    let mut build = Command::new(folder("node")?.join("check"));
    let built = build
        .arg("build")
        .env("CARGO_TARGET_DIR", &target)
        .stdout(Stdio::null())
        .status();
    let built = built.expect("check can be run");
    assert!(built.success(), "failed to build the Node driver: {built}");
    let driver = target.join("node-client/conformance/driver.js");
    // It says nothing, and builds nothing, where Node is too old.
    match driver.exists() {
        true => Ok(vec!["node".into(), driver]),
        false => Err("Node is older than 20".to_owned()),
    }
}

/// Returns the driver of one of the two interfaces, which is built once.
fn java(interface: &str) -> Result<Vec<PathBuf>, String> {
    static WORDS: OnceLock<Result<Vec<PathBuf>, String>> = OnceLock::new();
    let words = WORDS.get_or_init(|| {
        let mut build = Command::new(folder("java")?.join("check"));
        let built = build.arg("driver").stderr(Stdio::inherit()).output();
        let built = built.expect("check can be run");
        assert!(
            built.status.success(),
            "failed to build the Java driver: {}",
            built.status
        );
        // It builds nothing where a JDK or Maven is missing.
        let words = String::from_utf8_lossy(&built.stdout);
        let words: Vec<PathBuf> = words.lines().map(PathBuf::from).collect();
        match words.is_empty() {
            true => Err("there is no JDK of 17 or later, or no Maven".to_owned()),
            false => Ok(words),
        }
    });
    let mut words = words.clone()?;
    words.push(interface.into());
    Ok(words)
}

/// Returns the command of a line of words.
pub(crate) fn command(words: &[PathBuf]) -> Command {
    let (program, arguments) = words.split_first().expect("a driver has a program");
    let mut command = Command::new(program);
    command.args(arguments);
    command
}
