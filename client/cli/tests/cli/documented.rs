//! Test that the `leasehold` lines of two pages work as written: those of docs/locks.md, and of an incident in docs/operations.md.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
};

use leasehold_client::LostReason;

use super::{Ran, heed_signals, json, served};

/// Returns the `leasehold` lines of the page's `sh` blocks, without their comments.
fn lines(page: &str) -> Vec<&str> {
    let blocks = page.split("\n```").skip(1).step_by(2);
    let blocks = blocks.filter_map(|block| block.strip_prefix("sh\n"));
    let lines = blocks.flat_map(str::lines);
    let lines = lines.map(|line| line.split("  #").next().unwrap_or(line).trim_end());
    lines
        .filter(|line| line.starts_with("leasehold "))
        .collect()
}

/// Returns the `leasehold` commands that the page quotes in its text.
fn quoted(page: &str) -> impl Iterator<Item = &str> {
    let quoted = page.split('`').skip(1).step_by(2);
    quoted.filter(|quoted| quoted.starts_with("leasehold "))
}

/// Runs a line in a directory, as somebody who has `leasehold` on the search path.
fn run(endpoint: &str, directory: &Path, line: &str) -> Ran {
    let mut command = Command::new("sh");
    let own = Path::new(env!("CARGO_BIN_EXE_leasehold")).parent().unwrap();
    let path = env::var_os("PATH").unwrap_or_default();
    let path = [own.to_owned()].into_iter().chain(env::split_paths(&path));
    command
        .args(["-euc", line])
        .current_dir(directory)
        .env("PATH", env::join_paths(path).unwrap())
        .env("LEASEHOLD_ENDPOINT", endpoint)
        .stdin(Stdio::null());
    heed_signals(&mut command);
    Ran::of(&mut command)
}

/// Writes the scripts that the pages run, each of which says its name and arguments.
fn scripts(directory: &Path) {
    for name in ["train.sh", "debit.sh", "report.sh"] {
        let script = directory.join(name);
        fs::write(&script, "#!/bin/sh\necho \"did $0 $*\"\n").unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lines_of_the_page_on_locks_work() {
    let (_coordinator, endpoint, client) = served().await;
    let directory = tempfile::tempdir().unwrap();
    scripts(directory.path());
    let page = include_str!("../../../../docs/locks.md");
    let quoted = quoted(page).filter(|quoted| quoted.contains(" -- "));
    let quoted = quoted.filter(|quoted| !quoted.contains("COMMAND"));
    let lines: Vec<&str> = lines(page).into_iter().chain(quoted).collect();
    assert!(lines.len() >= 6, "{lines:?}");
    for line in lines {
        // Somebody is there to be asked.
        let held = match line.contains(" --ask ") {
            true => Some(client.lock("nightly-report").await.unwrap()),
            false => None,
        };
        let output = run(&endpoint, directory.path(), line);
        output.ended(0);
        let (out, err) = (output.out, output.err);
        if let Some(held) = held {
            assert_eq!(out, "asked 1 holder to release it\n", "{line}");
            let request = held.release_requested().await.unwrap();
            assert_eq!(request.reason(), "the node goes away");
            assert!(request.time_left().is_some(), "{request:?}");
            held.release().await.unwrap();
        } else if line.contains("./") {
            assert!(out.contains("did ./"), "{line}: {out}\n{err}");
        }
        if line.contains("LEASEHOLD_PERMITS") {
            assert!(out.contains("--gpus 8"), "{line}: {out}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lines_of_the_page_on_incidents_work() {
    let page = include_str!("../../../../docs/operations.md");
    let (_, page) = page.split_once("## First steps in an incident\n").unwrap();
    let (page, _) = page.split_once("\n# Runbook\n").unwrap();
    let (_coordinator, endpoint, client) = served().await;
    let directory = tempfile::tempdir().unwrap();
    let lines = lines(page);
    // The commands of the table, and the request before it.
    let quoted =
        quoted(page).filter(|quoted| quoted.contains(" release ") || quoted.contains(" end "));
    let all: Vec<&str> = quoted.chain(lines).collect();
    for (line, least) in [("release", 4), ("sessions", 3)] {
        let count = all.iter().filter(|all| all.contains(line)).count();
        assert!(count >= least, "{count} lines of {line}: {all:?}");
    }
    for line in all {
        let held = client.lock("orders/7").await.unwrap();
        let wait = client.lock("orders/7");
        let wait = tokio::spawn(async move { wait.await.map(drop) });
        super::until_waiters(&client, "orders/7", 1).await;
        let lock = json(&endpoint, &["get", "orders/7"]);
        let token = held.fencing_token().to_string();
        let number = lock["waiters"][0]["number"].as_str().unwrap();
        let sessions = json(&endpoint, &["sessions"]);
        let id = sessions[0]["sessionId"].as_str().unwrap();
        let filled = line
            .replace(" A ", &format!(" {endpoint} "))
            .replace("NAME", "orders/7")
            .replace("TOKEN", &token)
            .replace("NUMBER", number)
            .replace("TEXT", "'a node goes away'")
            .replace("0123456789abcdef0123456789abcdef", id)
            .replace("end ID", &format!("end {id}"));
        let output = run(&endpoint, directory.path(), &filled);
        output.ended(0);
        let is_taken = ["--force", "--holder", "sessions end"];
        if is_taken.iter().any(|taken| line.contains(taken)) {
            assert_eq!(held.lost().await, LostReason::Forced, "{filled}");
        } else {
            held.release().await.unwrap();
        }
        let waited = wait.await.unwrap();
        let is_ended = ["--waiter", "sessions end"];
        let is_ended = is_ended.iter().any(|ended| line.contains(ended));
        assert_eq!(waited.is_err(), is_ended, "{filled}: {waited:?}");
    }
}
