//! Test that the README's grpcurl session works as written, and that its comparison has sources.

use std::process::{Command, Stdio};

use leasehold_tests::{Coordinator, path_with_grpcurl};

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
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md");
    let commands = commands(&std::fs::read_to_string(readme).unwrap());
    assert!(commands.matches("grpcurl ").count() >= 3, "{commands}");
    // The lines name the default port: something else there would make this fail, and say so.
    let _coordinator = Coordinator::process()
        .arguments(["--listen", "127.0.0.1:7420"])
        .start();
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

#[test]
fn commands_are_taken_from_blocks_that_use_grpcurl() {
    let readme = "# x\n\n```rust\nfn grpcurl () {}\n```\n```console\n$ grpcurl a \\\n    b\nanswer\n$ echo c\n```\n\n```sh\nls\n```\n```sh\ngrpcurl d\n```\n";
    assert_eq!(commands(readme), "grpcurl a \\\n    b\necho c\ngrpcurl d\n");
}

/// Returns the rows of the first table whose header begins with `header`: a name and its cells.
fn table<'a>(text: &'a str, header: &str) -> Vec<Vec<&'a str>> {
    let rows = text.lines().skip_while(|line| !line.starts_with(header));
    rows.take_while(|line| line.starts_with('|'))
        .filter(|line| !line.starts_with("|---"))
        .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
        .collect()
}

#[test]
fn every_cell_of_the_comparison_has_its_source() {
    let readme = include_str!("../../../README.md");
    let sources = include_str!("../../../docs/comparison.md");
    let compared = table(sources, "| | Leasehold |");
    // The README has some of the rows.
    let shown = table(readme, "| | Leasehold |");
    assert!(shown.len() > 5, "{shown:?}");
    for row in &shown {
        assert!(compared.contains(row), "docs/comparison.md has no {row:?}");
    }
    let (header, rows) = compared.split_first().unwrap();
    assert!(header.len() > 6 && rows.len() > 10, "{compared:?}");
    for (column, system) in header.iter().enumerate().skip(1) {
        let heading = format!("\n## {system}\n");
        let (_, section) = sources.split_once(&heading).expect(system);
        let listed = table(section, "| row |");
        for row in rows {
            let [what, cell] = [row[0], row[column]];
            let source = listed.iter().find(|listed| listed[0] == what);
            let source = source.unwrap_or_else(|| panic!("{system}: {what}: no source"));
            assert_eq!(source[1], cell, "{system}: {what}");
            assert!(!source[2].is_empty(), "{system}: {what}: no source");
        }
    }
}
