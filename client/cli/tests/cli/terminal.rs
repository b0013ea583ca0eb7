//! Terminal: the foreground process of a `run`, and the display of a `bench`.

use std::{os::unix::process::ExitStatusExt, process::Command};

use leasehold_tests::{Coordinator, Terminal};

use super::{LIMIT, output, served, started};

/// Runs a script in a shell at a terminal; `$0` is the tool.
fn shell(endpoint: &str, script: &str) -> Terminal {
    shell_of("sh", endpoint, script)
}

fn shell_of(program: &str, endpoint: &str, script: &str) -> Terminal {
    let mut command = Command::new(program);
    command
        .args(["-c", script, env!("CARGO_BIN_EXE_leasehold")])
        .env("LEASEHOLD_ENDPOINT", endpoint);
    super::heed_signals(&mut command);
    Terminal::open(120, 30, command)
}

#[test]
fn the_command_reads_the_terminal_and_the_shell_does_again_after_it() {
    let coordinator = Coordinator::in_process();
    let script = "set -m; \"$0\" run a -- sh -c 'echo ready; read line; echo command=$line'; \
                  read line; echo shell=$line";
    let mut terminal = shell(&coordinator.endpoint(), script);
    terminal.expect("ready");
    terminal.press("one\n");
    terminal.expect("command=one");
    terminal.press("two\n");
    terminal.expect("shell=two");
}

#[test]
fn a_run_in_the_background_leaves_the_terminal_alone() {
    let coordinator = Coordinator::in_process();
    let script = "set -m; \"$0\" run a -- sh -c 'echo ready; sleep 600' & \
                  read line; echo shell=$line; kill %1; wait %1; echo ended=$?; \
                  read line; echo again=$line";
    let mut terminal = shell(&coordinator.endpoint(), script);
    terminal.expect("ready");
    terminal.press("one\n");
    terminal.expect("shell=one");
    terminal.expect("ended=143");
    terminal.press("two\n");
    terminal.expect("again=two");
}

#[test]
fn the_keys_that_interrupt_and_suspend_reach_the_command() {
    let coordinator = Coordinator::in_process();
    let script = "set -m; trap : INT; \
                  \"$0\" run a -- sh -c 'trap \"exit 9\" INT; echo ready; while :; do :; done'; \
                  echo ended=$?";
    let mut terminal = shell(&coordinator.endpoint(), script);
    terminal.expect("ready");
    terminal.press("\u{1a}");
    terminal.expect("can't be suspended");
    terminal.press("\u{3}");
    terminal.expect("ended=9");
}

/// As `| less` does: the pager reads keys from the terminal, not from the pipe.
#[test]
fn a_pager_behind_a_pipe_has_the_terminal() {
    let (_coordinator, endpoint) = started();
    let script = "set -m; \
                  \"$0\" run a -- seq 100000 | \
                  sh -c 'read first; echo asking; read key </dev/tty; echo key=$key; tail -n 1'; \
                  echo ended; read line; echo shell=$line";
    let mut terminal = shell(&endpoint, script);
    terminal.expect("asking");
    terminal.press("q\n");
    terminal.expect("key=q");
    terminal.expect("100000");
    terminal.expect("ended");
    terminal.press("two\n");
    terminal.expect("shell=two");
}

/// As sudo, ssh and psql do, whose input may be redirected.
#[test]
fn a_command_that_opens_the_terminal_gets_it_whatever_its_streams_are() {
    let (_coordinator, endpoint) = started();
    for (before, after) in [("", "</dev/null"), ("echo dump |", ""), ("", "| cat")] {
        let script = format!(
            "set -m; {before} \"$0\" run a -- \
             sh -c 'echo asking; read line </dev/tty; echo command=$line' {after}; \
             read line; echo shell=$line"
        );
        let mut terminal = shell(&endpoint, &script);
        terminal.expect("asking");
        terminal.press("one\n");
        terminal.expect("command=one");
        terminal.press("two\n");
        terminal.expect("shell=two");
    }
}

#[test]
fn the_command_and_a_pager_have_the_terminal_in_turn() {
    let (_coordinator, endpoint) = started();
    let directory = tempfile::tempdir().unwrap();
    let go = directory.path().join("go");
    let script = format!(
        "set -m; go={}; export go; \"$0\" run a -- sh -c '\
         read line </dev/tty; echo $line; while ! test -e $go; do sleep 0.01; done; \
         echo asking again; read line </dev/tty; echo again=$line' | \
         sh -c 'read line; echo command=$line; read key </dev/tty; echo key=$key; touch $go; cat'",
        go.display()
    );
    let mut terminal = shell(&endpoint, &script);
    terminal.press("one\n");
    terminal.expect("command=one");
    terminal.press("two\n");
    terminal.expect("key=two");
    terminal.expect("asking again");
    terminal.press("three\n");
    terminal.expect("again=three");
}

#[test]
fn a_command_in_the_background_that_wants_the_terminal_says_so_and_gets_it_in_the_foreground() {
    let (_coordinator, endpoint) = started();
    let script = "set -m; \"$0\" run a -- sh -c 'read line </dev/tty; echo command=$line' & \
                  read line; fg %1; echo ended=$?; read line; echo shell=$line";
    let mut terminal = shell(&endpoint, script);
    terminal.expect("until it gets the terminal");
    terminal.press("\n");
    terminal.press("one\n");
    terminal.expect("command=one");
    terminal.expect("ended=0");
    terminal.press("two\n");
    terminal.expect("shell=two");
}

#[test]
fn a_run_whose_command_is_not_in_the_foreground_is_not_suspended_either() {
    let (_coordinator, endpoint) = started();
    let script = "set -m; trap : INT; \
                  \"$0\" run a -- sh -c 'echo ready; exec sleep 600' </dev/null | cat; echo ended; \
                  \"$0\" run a --wait 0 -- echo free";
    let mut terminal = shell(&endpoint, script);
    terminal.expect("ready");
    terminal.press("\u{1a}");
    terminal.expect("can't be suspended");
    terminal.press("\u{3}");
    terminal.expect("ended");
    terminal.expect("free");
}

/// There is no command yet that could go on without its lock.
#[tokio::test]
async fn a_run_that_waits_can_be_suspended_and_continued() {
    let (_coordinator, endpoint, client) = served().await;
    let held = client.lock("a").await.unwrap();
    let script = "set -m; \"$0\" run a -- echo ran; echo suspended; fg %1; echo ended=$?";
    let mut terminal = shell(&endpoint, script);
    terminal.expect("waiting for lock");
    terminal.press("\u{1a}");
    terminal.expect("suspended");
    held.release().await.unwrap();
    terminal.expect("ran");
    terminal.expect("ended=0");
}

/// Its group has no id there that the terminal could be given back to.
#[cfg(target_os = "linux")]
#[test]
fn a_run_whose_group_is_outside_of_its_container_leaves_the_terminal_alone() {
    if !super::is_root("only root makes namespaces") {
        return;
    }
    let (_coordinator, endpoint) = started();
    let script = "unshare --pid --fork --kill-child \"$0\" run a -- echo ran; \
                  read line; echo shell=$line";
    let mut terminal = shell(&endpoint, script);
    terminal.expect("ran");
    terminal.press("two\n");
    terminal.expect("shell=two");
}

/// The kernel tells the group in the foreground, be it the command's or the tool's.
#[tokio::test]
async fn the_end_of_the_terminal_reaches_the_command_and_the_lock_is_released() {
    let (_coordinator, endpoint, client) = served().await;
    let directory = tempfile::tempdir().unwrap();
    for input in ["", "</dev/null"] {
        let told = directory.path().join(format!("told{}", input.len()));
        let script = format!(
            "told={}; export told; \"$0\" run a -- \
             sh -c 'trap \"echo >$told; exit\" HUP; echo ready; while :; do sleep 0.01; done' {input}",
            told.display()
        );
        let mut terminal = shell(&endpoint, &script);
        terminal.expect("ready");
        // Ends the shell, to which the terminal belongs.
        drop(terminal);
        leasehold_tests::wait::until("the release", LIMIT, || async {
            let view = client.admin().get_lock("a").await.unwrap();
            match (view.holder_count, view.closed_for) {
                (0, None) => Ok(()),
                instead => Err(instead),
            }
        })
        .await;
        assert!(told.exists(), "{input}");
    }
}

/// Whether the command has the terminal, or the whole pipeline, or no command runs yet.
#[tokio::test]
async fn an_interrupt_ends_a_loop_of_runs_as_one_of_plain_commands() {
    let (_coordinator, endpoint, client) = served().await;
    let _held = client.lock("held").await.unwrap();
    for program in ["sh", "bash"] {
        for (run, ready) in [
            ("run a -- sh -c 'echo ready; exec sleep 600'", "ready"),
            (
                "run a -- sh -c 'echo ready; exec sleep 600' </dev/null | cat",
                "ready",
            ),
            ("run held -- true", "waiting for lock"),
            ("elect a -- sh -c 'echo ready; exec sleep 600'", "ready"),
        ] {
            let script = format!("for i in 1 2; do \"$0\" {run}; done; echo went on");
            let mut terminal = shell_of(program, &endpoint, &script);
            terminal.expect(ready);
            terminal.press("\u{3}");
            let status = terminal.until_ended();
            let shown = terminal.screen().contents();
            assert_eq!(
                status.signal(),
                Some(libc::SIGINT),
                "{program}: {run}: {shown}"
            );
            assert_eq!(shown.matches(ready).count(), 1, "{program}: {run}: {shown}");
        }
    }
}

#[tokio::test]
async fn a_wait_is_told_in_place_and_taken_off_at_its_end() {
    let (_coordinator, endpoint) = started();
    let (_holder, mut lines) = super::start(
        &endpoint,
        "a",
        &["--client-name", "holder"],
        "echo held; sleep 600",
    );
    lines.expect("held", LIMIT).await;
    let script = "\"$0\" run a --wait 3s -- true; echo ended=$?";
    let mut terminal = shell(&endpoint, script);
    let shown = terminal.expect("ended=75");
    let text = "leasehold: waiting for lock \"a\": held by holder, place 1 in the queue, ";
    // Drawn anew as time passes, on the same line.
    assert!(shown.matches(text).count() >= 2, "{shown:?}");
    let (_, after) = shown.rsplit_once(text).unwrap();
    assert!(after.contains("\u{1b}[2K"), "{shown:?}");
}

#[tokio::test]
async fn colours_are_on_terminals_only_and_off_if_the_user_wants_none() {
    let (_coordinator, endpoint, client) = served().await;
    let _guard = client.lock("a").await.unwrap();
    for (before, coloured) in [
        ("unset NO_COLOR; ", true),
        ("NO_COLOR=1; export NO_COLOR; ", false),
    ] {
        let script = format!(
            "TERM=xterm; export TERM; {before}\"$0\" ls; \"$0\" watch & \
             while read line; do kill $!; exit; done"
        );
        let mut terminal = shell(&endpoint, &script);
        let shown = terminal.expect("ready");
        assert_eq!(shown.contains("\u{1b}[1mNAME"), coloured, "{shown:?}");
        assert_eq!(shown.contains("\u{1b}[32mheld"), coloured, "{shown:?}");
        assert_eq!(shown.contains('\u{1b}'), coloured, "{shown:?}");
        terminal.press("\n");
        terminal.until_ended();
    }
    let piped = super::output(&endpoint, &["ls"]).out;
    assert!(piped.starts_with("NAME "), "{piped:?}");
}

#[test]
fn a_bench_shows_its_progress_unless_it_is_told_to_be_quiet() {
    let coordinator = Coordinator::in_process();
    let script = "\
                  \"$0\" bench --clients 2 --warm-up 1s --duration 1s; echo ended=$?; \
                  \"$0\" bench --clients 2 --warm-up 0 --duration 1s --quiet; echo ended=$?";
    let mut terminal = shell(&coordinator.endpoint(), script);
    let shown = terminal.expect("ended=0");
    for part in ["warming up [", "measuring [", " left, ", " cycles/s"] {
        assert!(shown.contains(part), "no {part:?} in {shown:?}");
    }
    let shown = terminal.expect("ended=0");
    assert!(!shown.contains("measuring"), "{shown:?}");
    assert!(shown.contains("p99.9"), "{shown:?}");
}

#[test]
fn an_interrupt_on_request_reaches_the_command_alone() {
    let (_coordinator, endpoint) = started();
    let script = "\"$0\" elect e --on-request INT -- sh -c 'echo leads; exec sleep 600'; \
                  echo ended=$?";
    let mut terminal = shell(&endpoint, script);
    terminal.expect("leads");
    output(&endpoint, &["release", "e", "--ask"]);
    terminal.expect("campaigning again");
    terminal.expect("leads");
}
