//! Calls that are about no lock alone.

use leasehold_core::name::LockName;
use redis::{Cmd, Value};

use super::{
    errors::{call_error, link_error},
    keys::Keys,
    link::Link,
};
use crate::{error::StoreError, store::unanswered};

/// Most `SCAN` calls for one page.
const SCANS: usize = 10;

/// Sends one command.
pub(super) async fn call(link: &Link, command: Cmd) -> Result<Value, StoreError> {
    let mut replies = link
        .execute(0, vec![command])
        .await
        .map_err(|error| link_error(&error))?;
    match replies.items.pop() {
        Some(Ok(value)) => Ok(value),
        Some(Err(error)) => Err(call_error(&error)),
        None => Err(unanswered()),
    }
}

/// What was found, and where to go on; 0 when there is no more.
pub(super) struct Scanned {
    pub(super) names: Vec<LockName>,
    pub(super) cursor: u64,
}

/// Looks for about `size` lock keys whose names begin with `prefix`.
pub(super) async fn scan(
    link: &Link,
    keys: &Keys,
    prefix: &str,
    mut cursor: u64,
    size: usize,
) -> Result<Scanned, StoreError> {
    let mut names = Vec::new();
    for _ in 0..SCANS {
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg(keys.pattern(prefix));
        scan.arg("COUNT").arg(size).arg("TYPE").arg("string");
        let reply = call(link, scan).await?;
        let (next, found): (u64, Vec<Vec<u8>>) =
            redis::from_redis_value(reply).map_err(|error| StoreError::Garbled {
                reason: error.to_string(),
            })?;
        names.extend(found.iter().filter_map(|key| keys.name_of(key)));
        cursor = next;
        if cursor == 0 || names.len() >= size {
            break;
        }
    }
    Ok(Scanned { names, cursor })
}
