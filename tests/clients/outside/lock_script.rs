//! `examples/shell/lock.sh`: a lock by curl, which stops the job when it is lost.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use leasehold_tests::{Coordinator, CoordinatorProcess, http::FORCE_RELEASE, wait};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tempfile::TempDir;

use crate::curl::call;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/shell/lock.sh");

/// Job that says when it starts, when it is asked to stop, and that it is alive.
const JOB: &str = "echo $LEASEHOLD_FENCING_TOKEN >>tokens; trap 'echo asked >>log; exit 3' TERM; \
                   while :; do date +%s%N >alive; sleep 0.05; done";

struct Shell {
    folder: TempDir,
    endpoint: String,
}

/// Starts a coordinator for a shell; `None` if a program that the script needs is missing.
fn start() -> (CoordinatorProcess, Shell) {
    let coordinator = Coordinator::process().start();
    let shell = Shell {
        folder: tempfile::tempdir().unwrap(),
        endpoint: coordinator.endpoint(),
    };
    (coordinator, shell)
}

impl Shell {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(SCRIPT);
        command
            .args(args)
            .current_dir(self.folder.path())
            .env("LEASEHOLD_ENDPOINT", &self.endpoint)
            .stdin(Stdio::null());
        command
    }

    /// Runs it to its end; returns the exit code.
    fn run(&self, args: &[&str]) -> i32 {
        let status = self.command(args).status().unwrap();
        status.code().expect("it was not killed")
    }

    /// Starts [`JOB`] with `ttl`, and waits until it works.
    fn start_job(&self, ttl: &str) -> Child {
        let script = self
            .command(&["job", "--ttl", ttl, "--", "sh", "-c", JOB])
            .spawn()
            .unwrap();
        await_file(&self.path("alive"));
        script
    }

    fn holds(&self) -> bool {
        self.run(&["job", "--", "true"]) == 75
    }
}

fn await_file(path: &Path) {
    wait::until_blocking("the job to start", Duration::from_secs(30), || {
        path.exists().then_some(()).ok_or("no file")
    });
}

/// Waits until the job writes no longer.
fn await_silence(alive: &Path) {
    let mut last = (fs::read(alive).unwrap(), Instant::now());
    wait::until_blocking("the job to stop", Duration::from_secs(30), || {
        let now = fs::read(alive).unwrap();
        if now != last.0 {
            last = (now, Instant::now());
        }
        (last.1.elapsed() > Duration::from_millis(400))
            .then_some(())
            .ok_or("it writes")
    });
}

#[test]
fn the_lock_outlives_its_ttl_and_is_released_with_the_job() {
    needs!("curl", "jq", "pgrep");
    let (_coordinator, shell) = start();
    let job = ["job", "--ttl", "10s", "--", "sh", "-c"];
    let mut first = shell
        .command(
            &[
                &job[..],
                &["echo $LEASEHOLD_FENCING_TOKEN >tokens; sleep 12; echo first >>log; exit 7"],
            ]
            .concat(),
        )
        .spawn()
        .unwrap();
    await_file(&shell.path("tokens"));
    assert!(shell.holds());
    assert_eq!(shell.run(&["job", "--wait", "100ms", "--", "true"]), 75);
    let waited = shell.run(&[
        "job",
        "--ttl",
        "10s",
        "--wait",
        "40s",
        "--",
        "sh",
        "-c",
        "sleep 11; echo second >>log",
    ]);
    assert_eq!((waited, first.wait().unwrap().code()), (0, Some(7)));
    assert_eq!(
        fs::read_to_string(shell.path("log")).unwrap(),
        "first\nsecond\n"
    );
    assert!(!shell.holds());
}

#[test]
fn jobs_of_many_scripts_run_one_at_a_time() {
    needs!("curl", "jq", "pgrep");
    let (_coordinator, shell) = start();
    let work =
        "mkdir inside && sleep 0.1 && rmdir inside && echo $LEASEHOLD_FENCING_TOKEN >>tokens";
    let run = || shell.run(&["job", "--wait", "30s", "--", "sh", "-c", work]);
    thread::scope(|scope| {
        let scripts: Vec<_> = (0..6).map(|_| scope.spawn(run)).collect();
        for script in scripts {
            assert_eq!(script.join().unwrap(), 0);
        }
    });
    let tokens = fs::read_to_string(shell.path("tokens")).unwrap();
    let tokens: Vec<u64> = tokens.lines().map(|token| token.parse().unwrap()).collect();
    assert_eq!(tokens.len(), 6);
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
}

#[test]
fn a_forced_release_kills_the_job() {
    needs!("curl", "jq", "pgrep");
    let (coordinator, shell) = start();
    let mut script = shell.start_job("10s");
    call(
        &coordinator.endpoint(),
        FORCE_RELEASE,
        &json!({"name": "job"}),
    );
    assert_eq!(script.wait().unwrap().code(), Some(70));
    await_silence(&shell.path("alive"));
    assert!(!shell.path("log").exists(), "killed without being asked");
}

#[test]
fn a_coordinator_that_does_not_answer_stops_the_job_in_time() {
    needs!("curl", "jq", "pgrep");
    let (coordinator, shell) = start();
    let mut script = shell.start_job("10s");
    coordinator.stop();
    let stopped = Instant::now();
    assert_eq!(script.wait().unwrap().code(), Some(70));
    assert!(stopped.elapsed() < Duration::from_secs(10));
    assert_eq!(fs::read_to_string(shell.path("log")).unwrap(), "asked\n");
    coordinator.cont();
}

#[test]
fn the_job_does_not_outlive_a_killed_script() {
    needs!("curl", "jq", "pgrep");
    let (_coordinator, shell) = start();
    let mut script = shell.start_job("10s");
    script.kill().unwrap();
    script.wait().unwrap();
    // The next one works after the TTL at the latest, and the first job is gone by then.
    let next = "cp alive before; sleep 0.3; cmp alive before";
    assert_eq!(
        shell.run(&["job", "--wait", "30s", "--", "sh", "-c", next]),
        0
    );
    assert_eq!(fs::read_to_string(shell.path("log")).unwrap(), "asked\n");
}

#[test]
fn a_stopped_script_keeps_its_lock() {
    needs!("curl", "jq", "pgrep");
    let (_coordinator, shell) = start();
    let mut script = shell.start_job("10s");
    let id = Pid::from_child(&script);
    kill_process(id, Signal::STOP).unwrap();
    // Longer than its TTL.
    assert_eq!(shell.run(&["job", "--wait", "12s", "--", "true"]), 75);
    kill_process(id, Signal::CONT).unwrap();
    kill_process(id, Signal::TERM).unwrap();
    assert_eq!(script.wait().unwrap().code(), Some(3));
}

#[test]
fn a_job_that_nobody_would_stop_in_time_is_killed() {
    needs!("curl", "jq", "pgrep");
    let (_coordinator, shell) = start();
    let mut script = shell.start_job("1m");
    let keeper = Command::new("pgrep")
        .args(["--parent", &script.id().to_string(), "--full", SCRIPT])
        .output()
        .unwrap();
    let keeper: i32 = String::from_utf8(keeper.stdout)
        .unwrap()
        .trim()
        .parse()
        .expect("one child of the script is its keeper");
    kill_process(Pid::from_raw(keeper).unwrap(), Signal::KILL).unwrap();
    assert_eq!(script.wait().unwrap().code(), Some(70));
    await_silence(&shell.path("alive"));
}

#[test]
fn signals_pass_on_to_the_job() {
    needs!("curl", "jq", "pgrep");
    let (_coordinator, shell) = start();
    let mut script = shell.start_job("1m");
    kill_process(Pid::from_child(&script), Signal::TERM).unwrap();
    assert_eq!(script.wait().unwrap().code(), Some(3));
    assert!(!shell.holds());
}

#[test]
fn failures_have_the_exit_codes_of_leasehold_run() {
    needs!("curl", "jq", "pgrep");
    let (_coordinator, mut shell) = start();
    assert_eq!(shell.run(&["job", "true"]), 64);
    assert_eq!(shell.run(&["bad\u{1}name", "--", "true"]), 64);
    assert_eq!(shell.run(&["job", "--", "./missing"]), 127);
    shell.endpoint = "http://127.0.0.1:1".to_owned();
    assert_eq!(shell.run(&["job", "--", "true"]), 69);
}
