//! One test at a time, for tests that measure.

use tokio::sync::{Mutex, MutexGuard};

static ALONE: Mutex<()> = Mutex::const_new(());

/// Waits until no other test of this process is alone, and keeps others that ask waiting until the guard is dropped.
///
/// A test that measures times, or loads the machine, begins with this. Other suites may run at the same time, unless they are
/// `make soak`'s.
pub async fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().await
}
