//! Abusive clients: the helper program `abuser`.

use std::{
    process::{ChildStdin, Command, Stdio},
    time::Duration,
};

use crate::{
    binaries,
    process::{ChildProcess, Lines},
};

/// Longest time until an abuse is in full swing.
const SWING: Duration = Duration::from_secs(60);
/// Longest time until the abuser reports its actions.
const LIMIT: Duration = Duration::from_secs(10);

/// A process that abuses a coordinator, until it is stopped or dropped.
#[derive(Debug)]
pub struct Abuser {
    _child: ChildProcess,
    stdin: ChildStdin,
    lines: Lines,
}

impl Abuser {
    /// Starts an abuse that the program `abuser` knows, of the coordinator that serves this endpoint, and waits until it
    /// is in full swing.
    ///
    /// # Panics
    ///
    /// If it is not within a minute.
    pub async fn start(endpoint: &str, kind: &str) -> Self {
        let mut command = Command::new(binaries::path("abuser"));
        command
            .arg(endpoint.trim_start_matches("http://"))
            .arg(kind)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = ChildProcess::spawn(format!("abuser {kind}"), command);
        let (stdin, mut lines) = (child.take_stdin(), child.take_lines());
        lines.expect("ready", SWING).await;
        Self {
            _child: child,
            stdin,
            lines,
        }
    }

    /// Ends it, and returns its counts.
    ///
    /// # Panics
    ///
    /// If it does not say within ten seconds.
    pub async fn stop(mut self) -> String {
        drop(self.stdin);
        let (_, did) = self.lines.expect("did ", LIMIT).await;
        did.trim_start_matches("did ").to_owned()
    }
}
