//! One test at a time, for tests that measure.

use tokio::sync::{Mutex, MutexGuard};

static ALONE: Mutex<()> = Mutex::const_new(());

/// Waits until no other test of this process is alone, and keeps others that ask waiting until the guard is dropped.
///
/// Suites that measure times, or load the machine, are in a test binary of their own, since cargo runs binaries one after
/// the other, and begin with this.
pub async fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().await
}
