//! Programs of Node with the packages of the tests, and other programs that read a description of what to do from their standard input
//! and print a line for each part that they have done.

use std::{
    env,
    io::{BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
};

use serde_json::Value;

use crate::binaries;

/// Returns the path of a program.
///
/// # Errors
///
/// If it is missing: says so.
pub fn installed(program: &str) -> Result<PathBuf, String> {
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|path| path.is_file());
    found.ok_or_else(|| format!("{program} is not installed"))
}

/// Returns the command that runs a program of Node, with its packages.
///
/// # Errors
///
/// If Node's npm is missing: says so.
///
/// # Panics
///
/// If the packages can't be installed.
pub fn command(program: &str) -> Result<Command, String> {
    installed("npm")?;
    let target = binaries::target_directory();
    let made = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("tools"))
        .arg("node")
        .env("CARGO_TARGET_DIR", &target)
        .status()
        .expect("tests/tools can be run");
    assert!(made.success(), "tests/tools node: {made}");
    let mut command = Command::new("node");
    command.arg(target.join("connect-clients").join(program));
    Ok(command)
}

/// Does the same for a program that starts the browser at `CHROMIUM`.
///
/// # Errors
///
/// If Chromium or npm is missing: says so.
///
/// # Panics
///
/// If the packages can't be installed.
pub fn with_chromium(program: &str) -> Result<Command, String> {
    let chromium = installed("chromium")?;
    let mut command = command(program)?;
    command.env("CHROMIUM", chromium);
    Ok(command)
}

/// Program that has started. It is killed if it is dropped before it has ended.
#[derive(Debug)]
pub struct Started {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Started {
    /// Starts a program.
    ///
    /// # Panics
    ///
    /// If it can't be started.
    pub fn new(mut command: Command) -> Self {
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = spawned.expect("the program can be started");
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, output }
    }

    /// Returns the next line that it prints.
    ///
    /// # Panics
    ///
    /// If it can't be read.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Describes to it what to do, and returns the lines that it prints until it ends.
    ///
    /// # Panics
    ///
    /// If it does not end well.
    pub fn finish(mut self, description: &Value) -> Vec<String> {
        let mut stdin = self.child.stdin.take().unwrap();
        stdin.write_all(description.to_string().as_bytes()).unwrap();
        drop(stdin);
        let lines = self.output.by_ref().lines();
        let lines = lines.collect::<Result<_, _>>().unwrap();
        let ended = self.child.wait().unwrap();
        assert!(ended.success(), "{ended}, after {lines:?}");
        lines
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // It has ended already unless the test fails.
        let _ = self.child.kill();
    }
}
