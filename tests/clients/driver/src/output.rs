//! Lines to the runner.

use std::io::Write;

use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

use crate::failure::Failed;

/// The clock of all stamps. It counts suspended time.
const CLOCK: ClockId = {
    #[cfg(target_os = "linux")]
    let clock = ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let clock = ClockId::Monotonic;
    clock
};

/// Writes a line at once and whole. If the runner is gone, there is nobody to write for.
pub(crate) fn say(line: &Value) {
    let mut out = std::io::stdout().lock();
    let written = writeln!(out, "{line}").and_then(|()| out.flush());
    if written.is_err() {
        std::process::exit(0);
    }
}

/// Answers a request.
pub(crate) fn answer(id: u64, done: Result<Value, Failed>) {
    say(&match done {
        Ok(ok) => json!({ "id": id, "ok": ok }),
        Err(failed) => json!({ "id": id, "err": failed.into_json() }),
    });
}

/// Reads the clock by which the runner compares, in nanoseconds.
pub(crate) fn boot_ns() -> String {
    let time = clock_gettime(CLOCK);
    (i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)).to_string()
}
