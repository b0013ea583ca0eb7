//! Waits for conditions.

use std::{
    fmt::Debug,
    future::Future,
    time::{Duration, Instant},
};

/// Asks `probe` again and again until it says `Ok`, and returns that.
///
/// # Panics
///
/// If `limit` passes first: with `what` was waited for, and what the last probe said instead.
pub async fn until<T, E, F, Fut>(what: &str, limit: Duration, mut probe: F) -> T
where
    E: Debug,
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, E>>,
{
    let deadline = Instant::now() + limit;
    loop {
        match probe().await {
            Ok(value) => return value,
            Err(instead) if Instant::now() >= deadline => {
                panic!("waited {limit:?} for {what}; instead: {instead:?}")
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

/// Does the same for a caller without a runtime.
///
/// # Panics
///
/// If `limit` passes first.
pub fn until_blocking<T, E: Debug>(
    what: &str,
    limit: Duration,
    mut probe: impl FnMut() -> Result<T, E>,
) -> T {
    let deadline = Instant::now() + limit;
    loop {
        match probe() {
            Ok(value) => return value,
            Err(instead) if Instant::now() >= deadline => {
                panic!("waited {limit:?} for {what}; instead: {instead:?}")
            }
            Err(_) => std::thread::sleep(Duration::from_millis(2)),
        }
    }
}
