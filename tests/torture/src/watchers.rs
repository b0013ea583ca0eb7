//! Watchers of all locks, one at each coordinator.

use std::sync::Arc;

use leasehold_client::{LockEventKind, LockWatchEvent, LockWatcher};
use leasehold_torture::history::History;
use serde_json::json;
use tokio::task::JoinSet;

use crate::{coordinators::Coordinators, record::Record};

/// Starts the watchers. They end when the returned set is dropped; one that ends before returns why.
pub(crate) fn start(coordinators: &Coordinators, record: &Arc<Record>) -> JoinSet<String> {
    let mut running = JoinSet::new();
    for (number, endpoint) in coordinators.endpoints().iter().enumerate() {
        let name = format!("watcher-{number}");
        let history = History::create(&record.path(&name));
        let watcher = coordinators.admin(endpoint).watch_locks("torture/");
        running.spawn(watch(name, watcher, history));
    }
    running
}

async fn watch(name: String, mut watcher: LockWatcher, history: History) -> String {
    loop {
        let Some(item) = watcher.next().await else {
            return format!("{name} ended");
        };
        match item {
            Ok(LockWatchEvent::Ready) => history.line("watch_ready", json!({"watcher": name})),
            Ok(LockWatchEvent::Gap(_)) => history.line("watch_gap", json!({"watcher": name})),
            Ok(LockWatchEvent::Event(event)) => {
                let what = match event.kind {
                    LockEventKind::Granted => "granted",
                    LockEventKind::Released
                    | LockEventKind::Expired
                    | LockEventKind::Lost
                    | LockEventKind::Forced => "ended",
                    _ => continue,
                };
                let Some(token) = event.fencing_token else {
                    continue;
                };
                let fields = json!({
                    "watcher": name,
                    "lock": event.name,
                    "event": what,
                    "token": token.get(),
                });
                history.line("watched", fields);
            }
            Ok(_) => {}
            // It ends for good only if it is refused.
            Err(error) => {
                history.line("watch_gap", json!({"watcher": name}));
                return format!("{name} was refused: {error}");
            }
        }
    }
}
