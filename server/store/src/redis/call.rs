//! Calls that do not concern a single lock.

use leasehold_core::{failure::StoreError, name::LockName};
use redis::{Cmd, FromRedisValue, Value};

use super::{
    errors::{call_error, link_error},
    keys::Keys,
    link::Link,
};
use crate::{
    measure::{Meter, Script},
    store::unanswered,
};

/// Most `SCAN` calls for one page.
pub(crate) const SCANS: usize = 10;

/// Sends commands, measured as `script`. Fails if one of them does.
pub(crate) async fn call_all(
    (link, meter): (&Link, &Meter),
    script: Script,
    commands: Vec<Cmd>,
) -> Result<Vec<Value>, StoreError> {
    let call = async {
        let replies = link.execute(0, commands).await;
        let replies = replies.map_err(|error| link_error(&error))?;
        let replies = replies.items.into_iter();
        replies
            .map(|reply| reply.map_err(|error| call_error(&error)))
            .collect()
    };
    meter.measure(script, call).await
}

/// Sends one command, measured as `script`, and reads its reply.
pub(crate) async fn call<T: FromRedisValue>(
    link: (&Link, &Meter),
    script: Script,
    command: Cmd,
) -> Result<T, StoreError> {
    let mut replies = call_all(link, script, vec![command]).await?;
    let reply = replies.pop().ok_or_else(unanswered)?;
    redis::from_redis_value(reply).map_err(|error| StoreError::Garbled {
        reason: error.to_string(),
    })
}

/// Looks at about `size` lock keys whose names begin with `prefix`. Returns the next cursor, and the keys.
pub(crate) async fn scan_once(
    link: (&Link, &Meter),
    keys: &Keys,
    prefix: &str,
    cursor: u64,
    size: usize,
) -> Result<(u64, Vec<Vec<u8>>), StoreError> {
    let mut scan = redis::cmd("SCAN");
    scan.arg(cursor).arg("MATCH").arg(keys.pattern(prefix));
    scan.arg("COUNT").arg(size).arg("TYPE").arg("string");
    call(link, Script::Scan, scan).await
}

/// Finds about `size` lock keys whose names begin with `prefix`. Returns the names, and the cursor to go on with; 0 at the end.
pub(super) async fn scan(
    link: (&Link, &Meter),
    keys: &Keys,
    prefix: &str,
    mut cursor: u64,
    size: usize,
) -> Result<(Vec<LockName>, u64), StoreError> {
    let mut names = Vec::new();
    for _ in 0..SCANS {
        let (next, found) = scan_once(link, keys, prefix, cursor, size).await?;
        names.extend(found.iter().filter_map(|key| keys.name_of(key)));
        cursor = next;
        if cursor == 0 || names.len() >= size {
            break;
        }
    }
    Ok((names, cursor))
}
