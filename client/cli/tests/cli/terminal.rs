//! Terminal: the foreground process of a `run`, and the display of a `bench`.

use std::process::Command;

use leasehold_tests::{Coordinator, Terminal};

use super::{LIMIT, served, started};

/// Runs a script in a shell at a terminal; `$0` is the tool.
fn shell(endpoint: &str, script: &str) -> Terminal {
    let mut command = Command::new("sh");
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
