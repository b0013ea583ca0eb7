//! Beginning and end of the writing of the audit log.

use std::{
    io,
    path::Path,
    sync::{Arc, atomic::AtomicBool},
    thread,
    time::Duration,
};

use leasehold_core::id::CoordinatorId;
use tokio::sync::oneshot;

use super::{
    event::{EndKind, Event, Why},
    shared::Shared,
    writer::{Counters, Writer},
};

/// Longest time that the end of the process waits for the last lines.
const LAST_LINES: Duration = Duration::from_secs(1);

/// An audit log that nothing has been written to yet. Events wait until it is.
#[derive(Debug)]
#[must_use = "nothing is written before `begin`"]
pub struct Unwritten {
    writer: Writer,
    shared: Arc<Shared>,
}

/// Audit log that is being written.
#[derive(Debug)]
pub struct Writing {
    shared: Arc<Shared>,
    ended: oneshot::Receiver<()>,
}

impl Unwritten {
    /// Opens the log.
    ///
    /// # Errors
    ///
    /// If the file can't be opened.
    pub(super) fn open(
        path: &Path,
        coordinator: &CoordinatorId,
        counters: Counters,
    ) -> io::Result<Self> {
        let reopen = Arc::new(AtomicBool::new(false));
        let shared = Arc::new(Shared::new(counters.clone(), Arc::clone(&reopen)));
        let writer = Writer::open(path, coordinator.as_str().into(), counters, reopen)?;
        Ok(Self { writer, shared })
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Begins to write.
    ///
    /// # Errors
    ///
    /// If there is no thread for it.
    pub fn begin(self) -> io::Result<Writing> {
        let Self { writer, shared } = self;
        let (end, ended) = oneshot::channel();
        let written = Arc::clone(&shared);
        thread::Builder::new()
            .name("audit log".to_owned())
            .spawn(move || {
                writer.run(&written.queue, || written.now());
                // Nobody may wait for it.
                let _ = end.send(());
            })?;
        Ok(Writing { shared, ended })
    }
}

impl Writing {
    /// Tells what is left in the store, writes the last line, and waits for it, if the file takes it soon.
    pub async fn end(self) {
        let now = self.shared.now();
        for entry in self.shared.ledger.take_all() {
            if entry.is_granted() {
                let left = Event::Ended(entry.facts, EndKind::Left, Why::Stopped);
                self.shared.put(now, left);
            }
        }
        self.shared.put(now, Event::Stopped);
        self.shared.queue.close();
        if tokio::time::timeout(LAST_LINES, self.ended).await.is_err() {
            tracing::warn!("stopping before the last lines of the audit log were written");
        }
    }
}
