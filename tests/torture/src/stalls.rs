//! Times in which a process got no processor, so that a busy machine is not mistaken for a broken promise.

use std::{path::PathBuf, thread, time::Duration};

use serde_json::json;

use crate::history::{History, now};

/// Time between two looks.
const NAP: Duration = Duration::from_millis(20);
/// A look that comes later by this much is recorded.
const LATE: u64 = 100_000;

/// Records the stalls of this process, called `name`, in a file of their own, until the process ends.
pub fn watch(name: &str, path: PathBuf) {
    let name = name.to_owned();
    thread::spawn(move || {
        let history = History::create(&path);
        loop {
            let since = now();
            thread::sleep(NAP);
            let at = now();
            if at - since > LATE {
                history.line_at(at, "stalled", json!({"process": name, "since": since}));
            }
        }
    });
}
