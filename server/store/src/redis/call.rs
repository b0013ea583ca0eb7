//! Calls that do not concern a single lock.

use leasehold_core::failure::StoreError;
use leasehold_core::name::LockName;
use redis::{Cmd, Value};

use super::{
    errors::{call_error, link_error},
    keys::Keys,
    link::Link,
};
use crate::{
    clock,
    measure::{Meter, Script},
    store::unanswered,
};

/// Most `SCAN` calls for one page.
const SCANS: usize = 10;

/// Sends one command, measured as `script`.
pub(super) async fn call(
    (link, meter): (&Link, &Meter),
    script: Script,
    command: Cmd,
) -> Result<Value, StoreError> {
    let sent_at = clock::now();
    let result = match link.execute(0, vec![command]).await {
        Ok(mut replies) => {
            meter.called(script, sent_at.until(clock::now()));
            match replies.items.pop() {
                Some(Ok(value)) => Ok(value),
                Some(Err(error)) => Err(call_error(&error)),
                None => Err(unanswered()),
            }
        }
        Err(error) => Err(link_error(&error)),
    };
    result.inspect_err(|error| meter.failed(script, error))
}

/// Names that were found, and the cursor to go on with; 0 at the end.
pub(super) struct Scanned {
    pub(super) names: Vec<LockName>,
    pub(super) cursor: u64,
}

/// Finds about `size` lock keys whose names begin with `prefix`.
pub(super) async fn scan(
    link: (&Link, &Meter),
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
        let reply = call(link, Script::Scan, scan).await?;
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
