//! Process of the leader: the messages and the deadlines are all its own.

use std::{
    process::{ChildStdin, Stdio},
    time::Duration,
};

use leasehold_tests::{ChildProcess, process::Lines, tools};

/// Longest wait for a line.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A candidate, and what it says of itself.
pub(crate) struct Program {
    process: ChildProcess,
    input: Option<ChildStdin>,
    pub(crate) lines: Lines,
}

impl Program {
    /// Starts a candidate that knows these coordinators, by their URLs with commas in between.
    pub(crate) fn start(election: &str, value: &str, ttl: Duration, endpoints: &str) -> Self {
        let addresses = endpoints.replace("http://", "");
        let mut command = tools::python("leader.py");
        command
            .args([election, value, &ttl.as_secs().to_string()])
            .args(addresses.split(','))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut process = ChildProcess::spawn("leader.py", command);
        let input = Some(process.take_stdin());
        let lines = process.take_lines();
        Self {
            process,
            input,
            lines,
        }
    }

    /// Returns the rest of the next line, which begins with this word.
    pub(crate) async fn says(&mut self, word: &str) -> String {
        let (_, line) = self.lines.next(PATIENCE).await.expect("it goes on");
        match line.split_once(' ') {
            Some((said, rest)) if said == word => rest.to_owned(),
            None if line == word => String::new(),
            _ => panic!("it said {line:?}, not {word:?}"),
        }
    }

    /// Returns the token with which it is elected next.
    pub(crate) async fn leads(&mut self) -> i64 {
        self.says("leading").await.parse().unwrap()
    }

    /// Waits until it has moved, and returns what was left of its leadership.
    pub(crate) async fn moved(&mut self) -> Duration {
        let moved = self.says("moved").await;
        let (_, left) = moved.rsplit_once(' ').unwrap();
        Duration::from_secs_f64(left.parse().unwrap())
    }

    /// Has it resign, and waits until it has.
    pub(crate) async fn resign(mut self) {
        drop(self.input.take());
        self.says("resigned").await;
        assert!(self.process.wait(PATIENCE).await.success());
    }
}
