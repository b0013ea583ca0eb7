//! The harness's own history file: faults, kills, and what is left.

use std::{
    path::{Path, PathBuf},
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::SystemTime,
};

use leasehold_torture::history::{History, now};
use serde::Serialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::counted::Loss;

/// The harness's part of the history.
#[derive(Debug)]
pub(crate) struct Record {
    directory: PathBuf,
    history: History,
    faults: AtomicU64,
    broken_off: CancellationToken,
    /// The first reason.
    why: OnceLock<String>,
}

/// Effects of a fault, which the checker has to know.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Effects {
    pub(crate) loses_data: bool,
    pub(crate) cuts_leases: bool,
    /// Clients may move their sessions, and lose nothing by it.
    pub(crate) moves: bool,
    pub(crate) resets: Vec<String>,
    /// Clients whose connections are gone for as long as the fault lasts.
    pub(crate) disconnects: Vec<String>,
    pub(crate) stops: Vec<String>,
    pub(crate) disturbs: Vec<String>,
    /// Holds end although their holders may believe in them for a moment.
    pub(crate) forces: bool,
    /// Clients whose rights end.
    pub(crate) revokes: Vec<String>,
}

impl Effects {
    /// Disturbs all who wait.
    pub(crate) fn on_all() -> Self {
        Self {
            disturbs: vec!["*".to_owned()],
            ..Self::default()
        }
    }

    /// Does the same, and takes locks from their holders.
    pub(crate) fn forcing() -> Self {
        Self {
            forces: true,
            ..Self::on_all()
        }
    }

    /// Ends the rights of a client.
    pub(crate) fn revoking(client: String) -> Self {
        Self {
            disturbs: vec![client.clone()],
            revokes: vec![client],
            ..Self::default()
        }
    }

    /// Disturbs all who wait, and ends leases in the store before their time.
    pub(crate) fn cutting_leases() -> Self {
        Self {
            cuts_leases: true,
            ..Self::on_all()
        }
    }

    /// Does the same, and makes the store forget.
    pub(crate) fn losing_data() -> Self {
        Self {
            loses_data: true,
            ..Self::on_all()
        }
    }
}

impl Record {
    pub(crate) fn create(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            history: History::create(&directory.join("harness.jsonl")),
            faults: AtomicU64::new(1),
            broken_off: CancellationToken::new(),
            why: OnceLock::new(),
        }
    }

    /// Breaks the run off. The first reason is recorded before anything is ended because of it.
    pub(crate) fn break_off(&self, why: String) {
        if self.why.set(why).is_ok() {
            self.line("broken_off", json!({"why": self.why.get()}));
            self.broken_off.cancel();
        }
    }

    /// Waits until the run is broken off.
    pub(crate) async fn until_broken_off(&self) {
        self.broken_off.cancelled().await;
    }

    /// Returns why the run was broken off; none if it was not.
    pub(crate) fn why_broken_off(&self) -> Option<&str> {
        self.why.get().map(String::as_str)
    }

    /// Returns the path of a process's own history.
    pub(crate) fn path(&self, process: &str) -> PathBuf {
        self.directory.join(format!("{process}.jsonl"))
    }

    pub(crate) fn line(&self, kind: &str, fields: Value) {
        self.history.line(kind, fields);
    }

    /// Records the losses that a coordinator counted, as its log tells of each.
    pub(crate) fn counted(&self, coordinator: &str, log: &str) {
        // Both clocks now. Neither is set during a run.
        let ahead = since_epoch(SystemTime::now()).saturating_sub(now());
        for loss in log.lines().filter_map(Loss::read) {
            let at = since_epoch(loss.at).saturating_sub(ahead);
            let fields = json!({
                "coordinator": coordinator,
                "client": loss.client,
                "lock": loss.lock,
                "reason": loss.reason,
            });
            self.history.line_at(at, "counted", fields);
        }
    }

    /// Records that a fault begins, and returns its number.
    pub(crate) fn begin(&self, what: &str, target: &str, effects: &Effects) -> u64 {
        let fault = self.faults.fetch_add(1, Ordering::Relaxed);
        let mut fields = json!(effects);
        fields["fault"] = json!(fault);
        fields["what"] = json!(what);
        fields["target"] = json!(target);
        self.line("fault_began", fields);
        fault
    }

    /// Records that a fault is over.
    pub(crate) fn end(&self, fault: u64) {
        self.line("fault_ended", json!({"fault": fault}));
    }
}

fn since_epoch(at: SystemTime) -> u64 {
    let since = at
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
