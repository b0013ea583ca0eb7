//! First lines of a coordinator, which a newcomer pastes.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use leasehold_tests::{ChildProcess, binaries};

/// Runs a line in a shell, and returns what it prints.
fn pasted(line: &str) -> String {
    let output = Command::new("sh").args(["-c", line]).output().unwrap();
    assert!(output.status.success(), "{line}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_newcomer_takes_a_lock_and_opens_the_page_by_what_the_first_lines_say() {
    needs!("curl");
    let mut command = Command::new(binaries::path("leasehold-server"));
    command
        .args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut coordinator = ChildProcess::spawn("leasehold-server", command);
    let lines = BufReader::new(coordinator.take_stdout()).lines();
    let lines = lines.map_while(Result::ok);
    let mut said = Vec::new();
    for line in lines {
        let is_last = line.starts_with("note: ");
        said.push(line);
        if is_last {
            break;
        }
    }
    let line = |words: &str| {
        let found = said.iter().find(|line| line.contains(words));
        found.unwrap_or_else(|| panic!("no {words} in {said:#?}"))
    };
    let curl = line("/leasehold.v1.LockService/Acquire").trim();
    assert!(curl.starts_with("curl "), "{curl}");
    let grant = pasted(&format!("{curl} --silent --fail-with-body"));
    assert!(grant.contains("\"fencingToken\""), "{grant}");
    let page = line("see: ").split_whitespace().nth(1).unwrap();
    let page = pasted(&format!("curl --silent --fail {page}"));
    assert!(page.contains("<title>"), "{page}");
    let metrics = pasted(&format!("{} --silent --fail", line("/metrics")));
    assert!(metrics.contains("leasehold_"), "{metrics}");
}
