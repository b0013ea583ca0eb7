//! History files, in the format of the checker's `HISTORY.md`.

use std::{
    fs::{File, OpenOptions},
    io::Write,
    path::Path,
    sync::{Mutex, PoisonError},
};

use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

/// Returns the time in microseconds on the clock that all processes of the machine share.
pub fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec * 1_000_000 + now.tv_nsec / 1000).expect("the clock began before now")
}

/// A history file. Each line is written with one system call before the caller goes on.
#[derive(Debug)]
pub struct History {
    file: Mutex<File>,
}

impl History {
    /// Makes the file.
    ///
    /// # Panics
    ///
    /// If it exists or can't be made.
    pub fn create(path: &Path) -> Self {
        let file = OpenOptions::new().append(true).create_new(true).open(path);
        let file = file.unwrap_or_else(|error| panic_at(path, &error));
        Self {
            file: Mutex::new(file),
        }
    }

    /// Writes a line about this moment. `fields` is an object.
    ///
    /// # Panics
    ///
    /// If it can't be written.
    pub fn line(&self, kind: &str, fields: Value) {
        self.line_at(now(), kind, fields);
    }

    /// Writes a line about a moment before.
    ///
    /// # Panics
    ///
    /// If it can't be written, or `fields` is no object.
    pub fn line_at(&self, at: u64, kind: &str, mut fields: Value) {
        let record = fields.as_object_mut().expect("fields are an object");
        record.insert("at".to_owned(), json!(at));
        record.insert("kind".to_owned(), json!(kind));
        let line = format!("{fields}\n");
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(line.as_bytes())
            .expect("the history can be written");
    }
}

#[expect(clippy::panic, reason = "a run that can't be recorded is no run")]
fn panic_at(path: &Path, error: &std::io::Error) -> ! {
    panic!("failed to make {}: {error}", path.display())
}
