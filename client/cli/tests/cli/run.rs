//! `run`: the environment of the command, and the exit code for its caller.

use std::os::unix::process::{CommandExt, ExitStatusExt};

use leasehold_tests::{ChildProcess, Coordinator, process, wait};
use rustix::process::Signal;

use super::{
    LIMIT, Ran, copy_program, gone, leasehold, lives, output, served, start, started, until_waiters,
};

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
    // A Rust program ignores PIPE; its command must not.
    for (signal, code) in [("KILL", 137), ("PIPE", 141), ("TERM", 143)] {
        let script = format!("kill -{signal} $$; exit 1");
        let args = ["run", "a", "--", "sh", "-c", &script];
        output(&coordinator.endpoint(), &args).ended(code);
    }
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

/// A stopped process receives no signal but KILL, and would keep the lock.
#[tokio::test]
async fn a_stopped_command_is_continued_to_heed_a_signal() {
    let (_coordinator, endpoint) = started();
    let script = "trap 'exit 42' TERM; echo $$; kill -STOP $$; sleep 600";
    let (mut run, mut lines) = start(&endpoint, "a", &[], script);
    let (_, id) = lines.next(LIMIT).await.unwrap();
    let id = id.parse().unwrap();
    wait::until("the command to be stopped", LIMIT, || async {
        match process::state(id) {
            Some('T') => Ok(()),
            state => Err(state),
        }
    })
    .await;
    run.signal(Signal::TERM);
    assert_eq!(run.wait(LIMIT).await.code(), Some(42));
}

/// Starts the tool as a parent would that ignores SIGCHLD and blocks TERM.
#[expect(
    unsafe_code,
    reason = "nothing else sets the signals that a child inherits"
)]
fn inheriting(mut command: std::process::Command) -> std::process::Command {
    // SAFETY: these functions are async-signal-safe, and `sigemptyset` initialises the set.
    unsafe {
        command.pre_exec(|| {
            let mut blocked = std::mem::MaybeUninit::uninit();
            libc::sigemptyset(blocked.as_mut_ptr());
            libc::sigaddset(blocked.as_mut_ptr(), libc::SIGTERM);
            libc::pthread_sigmask(libc::SIG_BLOCK, blocked.as_ptr(), std::ptr::null_mut());
            libc::signal(libc::SIGCHLD, libc::SIG_IGN);
            Ok(())
        });
    }
    command
}

#[tokio::test]
async fn inherited_signals_change_neither_the_exit_code_nor_the_release() {
    let (_coordinator, endpoint, client) = served().await;
    for tool in ["run", "elect"] {
        let args = [tool, "a", "--", "sh", "-c", "exit 3"];
        let ran = Ran::of(&mut inheriting(leasehold(&endpoint, &args)));
        ran.ended(3);
        assert_eq!(ran.err, "");
        let view = client.admin().get_lock("a").await.unwrap();
        assert_eq!((view.holder_count, view.closed_for), (0, None));

        let script = "trap 'exit 42' TERM; echo ready; while :; do sleep 0.01; done";
        let args = [tool, "a", "--", "sh", "-c", script];
        let mut command = inheriting(leasehold(&endpoint, &args));
        command.stdout(std::process::Stdio::piped());
        let mut run = ChildProcess::spawn("leasehold", command);
        run.take_lines().expect("ready", LIMIT).await;
        run.signal(Signal::TERM);
        assert_eq!(run.wait(LIMIT).await.code(), Some(42), "{tool}");
    }
}

/// A shell shows 130 and 131 in both cases, and ends a loop in this one alone.
#[tokio::test]
async fn a_run_dies_of_the_signal_of_a_key_that_its_command_died_of() {
    let (_coordinator, endpoint, client) = served().await;
    for (signal, number) in [(Signal::INT, 2), (Signal::QUIT, 3)] {
        let script = "echo ready; ulimit -c 0; exec sleep 600";
        let (mut run, mut lines) = start(&endpoint, "a", &[], script);
        lines.expect("ready", LIMIT).await;
        run.signal(signal);
        let status = run.wait(LIMIT).await;
        assert_eq!((status.code(), status.signal()), (None, Some(number)));
        assert!(!status.core_dumped());
        let view = client.admin().get_lock("a").await.unwrap();
        assert_eq!((view.holder_count, view.closed_for), (0, None));
    }
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

/// Returns the guardian of a run, once it waits for signals.
#[cfg(all(target_os = "linux", not(leasehold_portable)))]
async fn guardian(run: &ChildProcess) -> u32 {
    let id = run.id();
    let children = format!("/proc/{id}/task/{id}/children");
    wait::until("the guardian", LIMIT, || async {
        let children = std::fs::read_to_string(&children).unwrap();
        let named = |id: &&str| {
            let name = std::fs::read_to_string(format!("/proc/{id}/comm"));
            name.is_ok_and(|name| name == "lock-guardian\n")
        };
        let guardian = children.split_whitespace().find(named);
        guardian
            .map(|id| id.parse().unwrap())
            .ok_or(children.clone())
    })
    .await
}

/// Sends a signal, as this process: the parent of the run, as a service manager is.
#[cfg(target_os = "linux")]
fn signal_one(process: u32, signal: Signal) {
    let process = rustix::process::Pid::from_raw(process.cast_signed());
    rustix::process::kill_process(process.unwrap(), signal).unwrap();
}

/// As systemd does unless a unit says otherwise.
#[cfg(all(target_os = "linux", not(leasehold_portable)))]
#[tokio::test]
async fn a_stop_of_all_processes_of_a_service_reaches_the_command_once() {
    let (_coordinator, endpoint) = started();
    let script = "trap 'echo term' TERM; trap 'done=yes' USR1; echo $$; \
                  while [ -z \"$done\" ]; do sleep 0.01; done; echo done; exit 5";
    let (mut run, mut lines) = start(&endpoint, "a", &[], script);
    let (_, command) = lines.next(LIMIT).await.unwrap();
    let guardian = guardian(&run).await;
    // So that all three have it before the run looks: the order does not matter.
    run.stop();
    for process in [run.id(), guardian, command.parse().unwrap()] {
        signal_one(process, Signal::TERM);
    }
    lines.expect("term", LIMIT).await;
    wait::until("the guardian to have taken the signal", LIMIT, || async {
        let status = std::fs::read_to_string(format!("/proc/{guardian}/status")).unwrap();
        match status.contains("ShdPnd:\t0000000000000000") && process::state(guardian) == Some('S')
        {
            true => Ok(()),
            false => Err(status),
        }
    })
    .await;
    run.cont();
    // Passed on after what would be passed on before.
    run.signal(Signal::USR1);
    let (_, line) = lines.next(LIMIT).await.unwrap();
    assert_eq!(line, "done");
    assert_eq!(run.wait(LIMIT).await.code(), Some(5));
}

/// As when systemd stops a unit and then kills its main process.
#[cfg(all(target_os = "linux", not(leasehold_portable)))]
#[tokio::test]
async fn a_guardian_that_is_signalled_still_ends_the_group_of_a_killed_run() {
    let (_coordinator, endpoint) = started();
    let script = "trap '' TERM INT HUP QUIT; sleep 600 & echo $!; wait";
    let (mut run, mut lines) = start(&endpoint, "a", &[], script);
    let (_, left) = lines.next(LIMIT).await.unwrap();
    let guardian = guardian(&run).await;
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
        signal_one(guardian, signal);
    }
    run.kill();
    gone("the group", &left).await;
}

#[cfg(all(target_os = "linux", not(leasehold_portable)))]
#[tokio::test]
async fn a_command_outlives_its_guardian() {
    let (_coordinator, endpoint, client) = served().await;
    let script = "trap 'exit 42' USR1; echo ready; while :; do sleep 0.01; done";
    let (mut run, mut lines) = start(&endpoint, "a", &[], script);
    lines.expect("ready", LIMIT).await;
    let guardian = guardian(&run).await;
    signal_one(guardian, Signal::KILL);
    gone("the guardian", &guardian.to_string()).await;
    run.signal(Signal::USR1);
    assert_eq!(run.wait(LIMIT).await.code(), Some(42));
    let view = client.admin().get_lock("a").await.unwrap();
    assert_eq!((view.holder_count, view.closed_for), (0, None));
}

/// As in a container without an init, where the default of a signal does not end it.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn process_1_of_a_container_passes_signals_on_and_ends_with_a_code() {
    if !super::is_root("only root makes namespaces") {
        return;
    }
    let (_coordinator, endpoint) = started();
    for (script, signal, code) in [
        ("exec sleep 600", Signal::INT, 130),
        ("exec sleep 600", Signal::TERM, 143),
        (
            "trap 'exit 42' TERM; while :; do sleep 0.01; done",
            Signal::TERM,
            42,
        ),
    ] {
        let mut command = std::process::Command::new("unshare");
        command
            .args([
                "--pid",
                "--fork",
                "--kill-child",
                env!("CARGO_BIN_EXE_leasehold"),
            ])
            .args([
                "run",
                "a",
                "--",
                "sh",
                "-c",
                &format!("echo ready; {script}"),
            ])
            .env("LEASEHOLD_ENDPOINT", &endpoint)
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::piped());
        super::heed_signals(&mut command);
        let mut unshare = ChildProcess::spawn("leasehold run as process 1", command);
        unshare.take_lines().expect("ready", LIMIT).await;
        let id = unshare.id();
        let children = format!("/proc/{id}/task/{id}/children");
        let run = std::fs::read_to_string(children).unwrap();
        signal_one(run.trim().parse().unwrap(), signal);
        assert_eq!(
            unshare.wait(LIMIT).await.code(),
            Some(code),
            "{script} {signal:?}"
        );
    }
}

/// An upgrade of the package removes the program's file while a run waits for its lock.
#[tokio::test]
async fn a_run_that_waited_through_an_upgrade_guards_its_command() {
    let (_coordinator, endpoint, client) = served().await;
    let held = client.lock("a").await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("leasehold");
    copy_program(env!("CARGO_BIN_EXE_leasehold"), &program);
    let mut command = std::process::Command::new(&program);
    command
        .args(["run", "a", "--", "sh", "-c", "sleep 600 & echo $!; wait"])
        .env("LEASEHOLD_ENDPOINT", &endpoint)
        .stdout(std::process::Stdio::piped());
    let mut run = ChildProcess::spawn("leasehold run", command);
    until_waiters(&client, "a", 1).await;
    // Another program is under this name then.
    std::fs::remove_file(&program).unwrap();
    copy_program("/bin/false", &program);
    held.release().await.unwrap();
    let mut lines = run.take_lines();
    let (_, left) = lines.next(LIMIT).await.unwrap();
    run.kill();
    gone("the group", &left).await;
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
