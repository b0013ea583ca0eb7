//! README's lines of grpcurl, run as written against a coordinator on another port.

use std::process::{Command, Stdio};

use leasehold_tests::{Coordinator, path_with_grpcurl};

use crate::has_grpcurl;

const ADDRESS: &str = "127.0.0.1:7420";

/// Returns the commands of the README's blocks that use grpcurl: whole `sh` blocks, and in `console` blocks the text after `$
/// `.
fn commands(readme: &str) -> String {
    let mut commands = String::new();
    for block in readme.split("\n```").skip(1).step_by(2) {
        let (language, text) = block.split_once('\n').unwrap_or((block, ""));
        if !text.contains("grpcurl ") {
            continue;
        }
        let mut goes_on = false;
        for line in text.lines() {
            let command = match language.trim() {
                "sh" => Some(line),
                "console" if goes_on => Some(line.strip_prefix("> ").unwrap_or(line)),
                "console" => line.strip_prefix("$ "),
                _ => None,
            };
            if let Some(command) = command {
                commands.push_str(command);
                commands.push('\n');
            }
            goes_on = command.is_some_and(|command| command.ends_with('\\'));
        }
    }
    commands
}

#[tokio::test]
async fn the_grpcurl_lines_of_the_readme_work_as_written() {
    if !has_grpcurl() {
        return;
    }
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md");
    let commands = commands(&std::fs::read_to_string(readme).unwrap());
    assert!(commands.matches("grpcurl ").count() >= 3, "{commands}");
    let coordinator = Coordinator::process().start();
    // The default port may be in use.
    assert!(commands.contains(ADDRESS), "{commands}");
    let commands = commands.replace(
        ADDRESS,
        coordinator.endpoint().trim_start_matches("http://"),
    );
    let mut bash = Command::new("bash");
    bash.args(["-euxo", "pipefail", "-c", &commands])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .env("PATH", path_with_grpcurl())
        .stdin(Stdio::null());
    let mut bash = tokio::process::Command::from(bash);
    bash.kill_on_drop(true);
    let limit = std::time::Duration::from_secs(60);
    let output = tokio::time::timeout(limit, bash.output())
        .await
        .unwrap()
        .unwrap();
    let out = String::from_utf8_lossy(&output.stdout);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{out}\n{err}", output.status);
    for service in [
        "leasehold.v1.LockService",
        "leasehold.v1.AdminService",
        "grpc.health.v1.Health",
    ] {
        assert!(out.contains(service), "{service} is not listed: {out}");
    }
    assert!(
        out.contains("ACQUIRE_OUTCOME_GRANTED") && out.contains("fencingToken"),
        "{out}"
    );
}
