//! Programs of the clients: how each is built and started, and what it prints when all is well.

use std::{
    env,
    ffi::OsStr,
    io::{BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
};

use leasehold_tests::binaries;
use serde_json::Value;

/// Program that calls as a client does.
pub(crate) struct Program {
    pub(crate) name: &'static str,
    /// Starts it, or says what is missing.
    pub(crate) start: fn() -> Result<Started, String>,
    /// Set for a web page, which prints its origin first.
    pub(crate) is_page: bool,
    /// The ways that it prints.
    pub(crate) ways: &'static [&'static str],
}

/// Ways of the programs that choose the version of HTTP.
const ALL: &[&str] = &[
    "connect proto HTTP/1.1",
    "connect proto HTTP/2",
    "connect json HTTP/1.1",
    "connect json HTTP/2",
    "grpc-web HTTP/1.1",
    "grpc-web HTTP/2",
    "grpc HTTP/2",
];

/// All programs.
pub(crate) const PROGRAMS: &[Program] = &[
    Program {
        name: "curl",
        start: curl,
        is_page: false,
        ways: &["json HTTP/1.1", "json HTTP/2"],
    },
    Program {
        name: "connect-go",
        start: go,
        is_page: false,
        ways: ALL,
    },
    Program {
        name: "connect-node",
        start: || node("node.mjs").map(start),
        is_page: false,
        ways: ALL,
    },
    Program {
        name: "connect-web",
        start: chromium,
        is_page: true,
        ways: &[
            "connect json HTTP/2",
            "connect proto HTTP/2",
            "grpc-web HTTP/2",
            "origins HTTP/2",
            "connect json HTTP/1.1",
            "connect proto HTTP/1.1",
            "grpc-web HTTP/1.1",
            "origins HTTP/1.1",
        ],
    },
];

/// Program that has started. It is killed if it is dropped before it has ended.
pub(crate) struct Started {
    child: Child,
    output: BufReader<ChildStdout>,
}

fn start(mut command: Command) -> Started {
    let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = spawned.expect("the program can be started");
    let output = BufReader::new(child.stdout.take().unwrap());
    Started { child, output }
}

impl Started {
    /// Returns the next line that it prints.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Describes the site to it, and returns the lines that it prints until it ends well.
    pub(crate) fn finish(mut self, site: &Value) -> Vec<String> {
        let mut stdin = self.child.stdin.take().unwrap();
        stdin.write_all(site.to_string().as_bytes()).unwrap();
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

/// Returns the path of a program, or says that it is missing.
fn installed(program: &str) -> Result<PathBuf, String> {
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|path| path.is_file());
    found.ok_or_else(|| format!("{program} is not installed"))
}

fn clients() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("connect/clients")
}

fn curl() -> Result<Started, String> {
    installed("curl")?;
    Ok(start(Command::new(clients().join("curl"))))
}

fn go() -> Result<Started, String> {
    installed("go")?;
    let program = binaries::target_directory().join("connect-clients/go");
    let built = Command::new("go")
        .current_dir(clients().join("go"))
        .args([
            "build".as_ref(),
            "-o".as_ref(),
            program.as_os_str(),
            OsStr::new("."),
        ])
        .status()
        .expect("go can be run");
    assert!(built.success(), "failed to build the client in Go: {built}");
    Ok(start(Command::new(program)))
}

/// Returns the command that runs a program of Node, with its packages.
fn node(program: &str) -> Result<Command, String> {
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

fn chromium() -> Result<Started, String> {
    let chromium = installed("chromium")?;
    let mut command = node("browser.mjs")?;
    command.env("CHROMIUM", chromium);
    Ok(start(command))
}
