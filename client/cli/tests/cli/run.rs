//! `run`: the environment of the command, and the exit code for its caller.

use leasehold_tests::{ChildProcess, Coordinator, wait};
use rustix::process::Signal;

use super::{LIMIT, Ran, leasehold, lives, output, start, started};

#[test]
fn the_command_is_told_its_lock_and_token_and_its_exit_code_is_passed_on() {
    let coordinator = Coordinator::in_process();
    let script = "echo $LEASEHOLD_LOCK_NAME $LEASEHOLD_FENCING_TOKEN; exit 7";
    let args = ["run", "a", "--", "sh", "-c", script];
    let first = output(&coordinator.endpoint(), &args);
    first.ended(7);
    let second = output(&coordinator.endpoint(), &args);
    let token = |ran: &Ran| -> i64 {
        let (name, token) = ran.out.trim().split_once(' ').unwrap();
        assert_eq!(name, "a");
        token.parse().unwrap()
    };
    assert!(token(&second) > token(&first));
}

#[test]
fn arguments_reach_the_command_as_they_are() {
    let coordinator = Coordinator::in_process();
    let args = ["run", "a", "--", "printf", "%s|", "--ttl", "x y", "", "--"];
    let ran = output(&coordinator.endpoint(), &args);
    assert_eq!(ran.out, "--ttl|x y||--|");
}

#[test]
fn the_end_by_a_signal_is_told_as_shells_do() {
    let coordinator = Coordinator::in_process();
    let args = ["run", "a", "--", "sh", "-c", "kill -9 $$"];
    output(&coordinator.endpoint(), &args).ended(137);
}

#[test]
fn a_command_that_cannot_be_started_gives_the_lock_back() {
    let (_coordinator, endpoint) = started();
    output(&endpoint, &["run", "a", "--", "/nonexistent/command"])
        .ended(127)
        .says(&["/nonexistent/command"]);
    output(&endpoint, &["run", "a", "--wait", "0", "--", "/dev/null"]).ended(126);
    output(&endpoint, &["run", "a", "--wait", "0", "--", "true"]).ended(0);
}

#[tokio::test]
async fn signals_are_passed_on_to_the_group() {
    let coordinator = Coordinator::in_process();
    for (signal, name) in [
        (Signal::INT, "INT"),
        (Signal::TERM, "TERM"),
        (Signal::HUP, "HUP"),
        (Signal::QUIT, "QUIT"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
    ] {
        let script = format!("trap 'exit 42' {name}; echo ready; while :; do sleep 0.01; done");
        let (mut run, mut lines) = start(&coordinator.endpoint(), name, &[], &script);
        lines.expect("ready", LIMIT).await;
        run.signal(signal);
        assert_eq!(run.wait(LIMIT).await.code(), Some(42), "{name}");
    }
}

#[tokio::test]
async fn ignored_signals_stay_ignored_for_the_command() {
    let (_coordinator, endpoint) = started();
    let script =
        "trap '' HUP; exec \"$0\" run a -- sh -c 'echo ready; sleep 0.2; kill -HUP $$; exit 3'";
    let mut command = std::process::Command::new("sh");
    command
        .args(["-c", script, env!("CARGO_BIN_EXE_leasehold")])
        .env("LEASEHOLD_ENDPOINT", &endpoint)
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped());
    let mut run = ChildProcess::spawn("leasehold run under nohup", command);
    run.take_lines().expect("ready", LIMIT).await;
    run.signal(Signal::HUP);
    assert_eq!(run.wait(LIMIT).await.code(), Some(3));
}

#[tokio::test]
async fn a_killed_run_takes_the_whole_group_with_it() {
    let coordinator = Coordinator::in_process();
    let script = "sleep 600 & echo $$ $!; wait";
    let (mut run, mut lines) = start(&coordinator.endpoint(), "a", &[], script);
    let (_, line) = lines.next(LIMIT).await.unwrap();
    let pids: Vec<_> = line.split(' ').collect();
    assert_eq!(pids.len(), 2);
    assert!(pids.iter().all(|pid| lives(pid)));
    run.kill();
    wait::until("the group to be gone", LIMIT, || async {
        match pids.iter().find(|pid| lives(pid)) {
            None => Ok(()),
            Some(pid) => Err(*pid),
        }
    })
    .await;
}

#[test]
fn processes_that_the_command_leaves_running_are_not_killed() {
    let coordinator = Coordinator::in_process();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("left");
    let go = directory.path().join("go");
    // It ends with the test, too.
    let waits = format!(
        "test -d {} && ! test -e {}",
        directory.path().display(),
        go.display()
    );
    let left = format!("while {waits}; do sleep 0.05; done");
    let script = format!("({left}; echo done > {}) &", file.display());
    let mut command = leasehold(
        &coordinator.endpoint(),
        &["run", "a", "--", "sh", "-c", &script],
    );
    assert!(command.status().unwrap().success());
    assert!(!file.exists());
    std::fs::write(go, "").unwrap();
    wait::until_blocking("what was left to end", LIMIT, || {
        if file.exists() {
            Ok(())
        } else {
            Err("there is no file")
        }
    });
}
