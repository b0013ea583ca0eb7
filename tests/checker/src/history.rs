//! Format of a history, as `HISTORY.md` describes it.

use std::{fs, io, path::Path};

use serde::Deserialize;

/// A line of a history.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Line {
    /// Time on the machine's monotonic clock, in microseconds.
    pub at: u64,
    /// Contents.
    #[serde(flatten)]
    pub record: Record,
}

/// Mode of a lock.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Held alone.
    Exclusive,
    /// Held together with others of this mode.
    Shared,
    /// Permits of a semaphore.
    Permits,
}

/// Contents of a line. Times are in microseconds on the clock of [`Line::at`].
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[expect(missing_docs, reason = "HISTORY.md has the meaning of each field")]
pub enum Record {
    Run {
        seed: u64,
        store: String,
        minutes: f64,
    },
    Asked {
        client: String,
        ask: u64,
        lock: String,
        mode: Mode,
        #[serde(default)]
        permits: u64,
        #[serde(default)]
        limit: u64,
        #[serde(default)]
        wait: Option<u64>,
        #[serde(default)]
        queue: String,
    },
    Granted {
        client: String,
        ask: u64,
        #[serde(default)]
        token: Option<i64>,
        until: u64,
    },
    Ended {
        client: String,
        ask: u64,
        outcome: Outcome,
        #[serde(default)]
        why: String,
    },
    Extended {
        client: String,
        ask: u64,
        until: u64,
    },
    Suspended {
        client: String,
        ask: u64,
    },
    Resumed {
        client: String,
        ask: u64,
        until: u64,
    },
    Releasing {
        client: String,
        ask: u64,
    },
    Released {
        client: String,
        ask: u64,
        held: bool,
    },
    Lost {
        client: String,
        ask: u64,
        why: String,
    },
    Counted {
        coordinator: String,
        #[serde(default)]
        client: Option<String>,
        lock: String,
        reason: String,
    },
    Finished {
        client: String,
    },
    Killed {
        client: String,
    },
    Write(Write),
    Watched {
        watcher: String,
        lock: String,
        event: Event,
        token: i64,
    },
    WatchReady {
        watcher: String,
    },
    WatchGap {
        watcher: String,
    },
    FaultBegan {
        fault: u64,
        what: String,
        target: String,
        #[serde(flatten)]
        effects: Effects,
    },
    FaultEnded {
        fault: u64,
    },
    FailedOver {
        to: String,
    },
    Stalled {
        process: String,
        since: u64,
    },
    BrokenOff {
        why: String,
    },
    Left {
        keys: Vec<String>,
    },
}

/// A write to a register.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Write {
    /// The client's name.
    pub client: String,
    /// The lock that protects the register.
    pub lock: String,
    /// The client's token.
    pub token: i64,
    /// The register took it.
    pub accepted: bool,
    /// Place in the register's own order.
    pub sequence: u64,
}

/// Effects that a fault may have.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct Effects {
    /// The store may forget what it had confirmed.
    pub loses_data: bool,
    /// Leases may end in the store before their time.
    pub cuts_leases: bool,
    /// An operator takes locks from their holders, who are told within a moment if they can be.
    pub forces: bool,
    /// Clients may move their sessions, and lose nothing by it.
    pub moves: bool,
    /// Clients whose connections may be reset in the middle.
    pub resets: Vec<String>,
    /// Clients whose connections are gone for as long as the fault lasts.
    pub disconnects: Vec<String>,
    /// Clients whose processes stand still.
    pub stops: Vec<String>,
    /// Clients whose waiting may lose its place or its time, and who may lose what they hold.
    pub disturbs: Vec<String>,
    /// Clients whose rights end for as long as the fault lasts.
    pub revokes: Vec<String>,
}

/// Event of a hold, as a watcher saw it.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Hash)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// It began.
    Granted,
    /// It ended, in any way.
    Ended,
}

/// End of an acquire without a grant.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The wait was over.
    TimedOut,
    /// The lock was taken, and the client did not want to wait.
    Busy,
    /// The client gave up.
    Cancelled,
    /// An error, for example because the store was out of reach.
    Failed,
    /// The coordinator refused it for the client's credentials or permissions.
    Refused,
}

/// Reads the files `*.jsonl` of a directory, and returns their lines by time.
///
/// # Errors
///
/// If a file can't be read, or a line is not as the format demands.
pub fn read(directory: &Path) -> Result<Vec<Line>, String> {
    let unreadable =
        |path: &Path, error: io::Error| format!("failed to read {}: {error}", path.display());
    let mut lines = Vec::new();
    let entries = fs::read_dir(directory).map_err(|error| unreadable(directory, error))?;
    for entry in entries {
        let path = entry.map_err(|error| unreadable(directory, error))?.path();
        if path.extension().is_some_and(|it| it == "jsonl") {
            let text = fs::read_to_string(&path).map_err(|error| unreadable(&path, error))?;
            lines.extend(parse(&path.display().to_string(), &text)?);
        }
    }
    lines.sort_by_key(|line| line.at);
    Ok(lines)
}

/// Returns the lines of one file, called `name` in errors, without the last line if that has no end.
///
/// # Errors
///
/// If a line is not as the format demands.
pub fn parse(name: &str, text: &str) -> Result<Vec<Line>, String> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let lines = (1..).zip(whole.lines());
    let lines = lines.map(|(number, line): (usize, _)| {
        serde_json::from_str(line).map_err(|error| format!("{name}:{number}: {error}"))
    });
    lines.collect()
}
