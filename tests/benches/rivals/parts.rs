//! Parts of a benchmark, each of which may fail by itself.

use std::{any::Any, panic::AssertUnwindSafe, time::Duration};

use anyhow::{anyhow, bail};
use futures_util::FutureExt;

/// Runs one part: within `limit`, and so that a panic of a fixture ends that part alone.
///
/// # Errors
///
/// If the part fails, panics or takes too long.
pub(crate) async fn guard<T>(
    limit: Duration,
    part: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    let part = AssertUnwindSafe(part).catch_unwind();
    match tokio::time::timeout(limit, part).await {
        Ok(Ok(measured)) => measured,
        Ok(Err(panic)) => Err(anyhow!("{}", said(&*panic))),
        Err(_) => bail!("not done after {limit:?}"),
    }
}

/// Returns the message of a panic.
fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a fixture panicked")
}
