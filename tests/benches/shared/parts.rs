//! Parts of a benchmark, each of which may fail by itself.

use std::{
    any::Any,
    panic::AssertUnwindSafe,
    time::{Duration, Instant},
};

use futures_util::FutureExt;
use leasehold_tests::report;

/// Parts that ran, one after the other.
pub(crate) struct Parts {
    began: Instant,
    limit: Duration,
    pub(crate) failures: Vec<Failure>,
}

/// A part that failed.
pub(crate) struct Failure {
    pub(crate) part: &'static str,
    pub(crate) reason: String,
}

impl Parts {
    /// Begins; each part may take as long as `limit`.
    pub(crate) fn new(limit: Duration) -> Self {
        Self {
            began: Instant::now(),
            limit,
            failures: Vec::new(),
        }
    }

    /// Announces a part, since it takes a while.
    pub(crate) fn say(&self, part: &str) {
        report(format!("{:4} s  {part}", self.began.elapsed().as_secs()));
    }

    /// Runs one part: within the limit, and so that a panic of a fixture ends that part alone. Returns nothing if it failed.
    pub(crate) async fn run<T>(
        &mut self,
        part: &'static str,
        measured: impl Future<Output = anyhow::Result<T>>,
    ) -> Option<T> {
        self.say(part);
        // On the heap: a measurement is a large future.
        let measured = AssertUnwindSafe(Box::pin(measured)).catch_unwind();
        let reason = match tokio::time::timeout(self.limit, measured).await {
            Ok(Ok(Ok(measured))) => return Some(measured),
            Ok(Ok(Err(error))) => format!("{error:#}"),
            Ok(Err(panic)) => said(&*panic).to_owned(),
            Err(_) => format!("not done after {:?}", self.limit),
        };
        report(format!("        failed: {reason}"));
        self.failures.push(Failure { part, reason });
        None
    }
}

/// Returns the message of a panic.
fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a fixture panicked")
}
