//! Client processes: the helper program `worker`, which uses the Rust client, or the wire, and obeys orders.

use std::{
    io::Write,
    process::{ChildStdin, Command, Stdio},
    time::{Duration, Instant},
};

use crate::{
    binaries,
    process::{ChildProcess, Lines},
};

const LIMIT: Duration = Duration::from_secs(10);

/// A process that holds locks through the Rust client. Killed on drop.
#[derive(Debug)]
pub struct Worker {
    child: ChildProcess,
    orders: ChildStdin,
    lines: Lines,
}

impl Worker {
    /// Starts a worker whose session has this TTL. It connects on its own: see [`ready`](Self::ready).
    pub fn start(endpoint: &str, ttl: Duration) -> Self {
        let mut command = Command::new(binaries::path("worker"));
        command
            .arg(endpoint)
            .arg(ttl.as_millis().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = ChildProcess::spawn("worker", command);
        Self {
            orders: child.take_stdin(),
            lines: child.take_lines(),
            child,
        }
    }

    /// Waits until its session is open.
    ///
    /// # Panics
    ///
    /// If it is not within ten seconds.
    pub async fn ready(&mut self) {
        self.lines.expect("ready", LIMIT).await;
    }

    /// Returns the process.
    pub fn child(&mut self) -> &mut ChildProcess {
        &mut self.child
    }

    /// Gives an order, a line as the worker's own documentation lists them.
    ///
    /// # Panics
    ///
    /// If the worker is gone.
    pub fn order(&mut self, line: &str) {
        writeln!(self.orders, "{line}").expect("the worker reads its orders");
    }

    /// Returns the rest of the next line that begins with `prefix`, and when it was printed; lines before it are dropped.
    ///
    /// # Panics
    ///
    /// If none comes within `limit`.
    pub async fn heard(&mut self, prefix: &str, limit: Duration) -> (Instant, String) {
        let (at, line) = self.lines.expect(prefix, limit).await;
        (at, line[prefix.len()..].trim().to_owned())
    }

    /// Returns the next line, with any contents.
    ///
    /// # Panics
    ///
    /// If none comes within `limit`, or the worker has ended.
    pub async fn next(&mut self, limit: Duration) -> String {
        self.lines.next(limit).await.expect("the worker runs").1
    }

    /// Has it take a lock, and returns the fencing token.
    ///
    /// # Panics
    ///
    /// If it is not granted within ten seconds.
    pub async fn acquire(&mut self, name: &str) -> i64 {
        self.order(&format!("acquire {name}"));
        self.granted(name).await
    }

    /// Waits until it has been granted a lock that it was ordered to take, and returns the fencing token. Of several names at
    /// once, ask for them in the order named.
    ///
    /// # Panics
    ///
    /// If it is not granted within ten seconds.
    pub async fn granted(&mut self, name: &str) -> i64 {
        let (_, token) = self.heard(&format!("granted {name} "), LIMIT).await;
        token.parse().expect("a token is a number")
    }
    /// Waits until it has been elected where it was ordered to campaign, and returns the fencing token and the time of its
    /// report.
    ///
    /// # Panics
    ///
    /// If it is not within `limit`.
    pub async fn elected(&mut self, name: &str, limit: Duration) -> (Instant, i64) {
        let (at, token) = self.heard(&format!("elected {name} "), limit).await;
        (at, token.parse().expect("a token is a number"))
    }
}
