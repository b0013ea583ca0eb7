//! The command line as its users see it: help and mistakes without a coordinator, everything else with a real one.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod asked;
mod bench;
mod completions;
mod crossing;
mod documented;
mod elect;
mod family;
mod history;
mod inspect;
mod json_errors;
mod messages;
mod observe;
#[cfg(all(target_os = "linux", not(leasehold_portable)))]
mod other_users;
mod profile;
mod run;
mod run_lost;
mod secure;
mod status;
mod terminal;
mod top;
mod traced;
mod unread;
mod wait;
mod waiting;

#[cfg(target_os = "linux")]
use std::io::Write;
use std::{
    os::unix::process::CommandExt,
    process::{Command, Stdio},
    time::Duration,
};

use leasehold_client::Client;
use leasehold_tests::{
    ChildProcess, Coordinator,
    process::{self, Lines},
};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(20);

/// Compares the output of commands that need no coordinator. After a wanted change: `TRYCMD=overwrite cargo test -p leasehold
/// snapshots`.
#[test]
fn snapshots() {
    trycmd::TestCases::new()
        .env("COLUMNS", "100")
        .case("tests/cmd/*.trycmd");
}

/// Returns the command line of the tool, with the coordinator's endpoint.
fn leasehold(endpoint: &str, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leasehold"));
    command
        .args(args)
        .env("LEASEHOLD_ENDPOINT", endpoint)
        .stdin(Stdio::null());
    heed_signals(&mut command);
    command
}

/// Restores the default handling of INT and QUIT. A script's background processes ignore both, and so do their children,
/// including these tests.
#[expect(
    unsafe_code,
    reason = "nothing else sets a child's signals back to their defaults"
)]
fn heed_signals(command: &mut Command) {
    // SAFETY: `signal` is async-signal-safe, and the default disposition runs no code of ours.
    unsafe {
        command.pre_exec(|| {
            for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGHUP] {
                libc::signal(signal, libc::SIG_DFL);
            }
            Ok(())
        });
    }
}

/// Returns a coordinator and its endpoint.
fn started() -> (Coordinator, String) {
    let coordinator = Coordinator::in_process();
    let endpoint = coordinator.endpoint();
    (coordinator, endpoint)
}

/// Returns a coordinator, its endpoint, and a client of it.
async fn served() -> (Coordinator, String, Client) {
    let (coordinator, endpoint) = started();
    let client = Client::connect(&endpoint).await.unwrap();
    (coordinator, endpoint, client)
}

/// A run of the tool that has ended.
#[derive(Debug)]
struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Ran {
    /// Runs a command to its end.
    fn of(command: &mut Command) -> Self {
        let output = command.output().unwrap();
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Asserts its exit code.
    #[track_caller]
    fn ended(&self, code: i32) -> &Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }

    /// Asserts that each of these parts is on standard error.
    #[track_caller]
    fn says(&self, parts: &[&str]) {
        for part in parts {
            assert!(self.err.contains(part), "no {part:?} in {self:?}");
        }
    }

    /// Returns the document on standard output.
    #[track_caller]
    fn json(&self) -> Value {
        let read = serde_json::from_str(&self.out);
        read.unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Runs the tool to its end.
fn output(endpoint: &str, args: &[&str]) -> Ran {
    Ran::of(&mut leasehold(endpoint, args))
}

/// Returns the document that the tool prints.
fn json(endpoint: &str, args: &[&str]) -> Value {
    let ran = output(endpoint, &[args, &["--json"]].concat());
    ran.ended(0).json()
}

/// Starts `leasehold run NAME [OPTIONS] -- sh -c SCRIPT`; the lines are the command's.
fn start(endpoint: &str, name: &str, options: &[&str], script: &str) -> (ChildProcess, Lines) {
    let args = [&["run", name], options, &["--", "sh", "-c", script]].concat();
    let mut command = leasehold(endpoint, &args);
    command.stdout(Stdio::piped());
    let mut run = ChildProcess::spawn("leasehold run", command);
    let lines = run.take_lines();
    (run, lines)
}

/// Starts the tool; the lines are those of standard output and standard error together.
fn spawn_merged(endpoint: &str, args: &[&str]) -> (ChildProcess, Lines) {
    let mut command = Command::new("sh");
    command
        .args([
            "-c",
            "exec \"$0\" \"$@\" 2>&1",
            env!("CARGO_BIN_EXE_leasehold"),
        ])
        .args(args)
        .env("LEASEHOLD_ENDPOINT", endpoint)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    heed_signals(&mut command);
    let mut child = ChildProcess::spawn(format!("leasehold {}", args.join(" ")), command);
    let lines = child.take_lines();
    (child, lines)
}

/// Waits until so many wait for the lock.
async fn until_waiters(client: &Client, name: &str, count: u64) {
    leasehold_tests::wait::until("the number of waiters", LIMIT, || async {
        match client.admin().get_lock(name).await.unwrap().waiter_count {
            waiters if waiters == count => Ok(()),
            waiters => Err(waiters),
        }
    })
    .await;
}

/// Copies a program. In a process of its own: a test that forks meanwhile would have the copy open for writing for a moment, and
/// such a file can't be executed.
fn copy_program(from: &str, to: &std::path::Path) {
    assert!(
        Command::new("cp")
            .arg(from)
            .arg(to)
            .status()
            .unwrap()
            .success()
    );
}

/// Returns whether the tests run as root, and otherwise says that one is skipped, and why.
#[cfg(target_os = "linux")]
fn is_root(why: &str) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        // Not captured, unlike what is printed.
        let said = format!("skipped without root: {why}\n");
        std::io::stderr().write_all(said.as_bytes()).unwrap();
    }
    is_root
}

/// Returns whether a process is there and not just waiting to be collected.
fn lives(pid: &str) -> bool {
    let state = pid.parse().ok().and_then(process::state);
    state.is_some_and(|state| state != 'Z')
}

/// Waits until a process is gone.
async fn gone(what: &str, pid: &str) {
    leasehold_tests::wait::until(&format!("{what} to be gone"), LIMIT, || async {
        if lives(pid) { Err("it lives") } else { Ok(()) }
    })
    .await;
}
