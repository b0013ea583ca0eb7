//! Marks of sessions that operators have ended: see [`leasehold_core::ended`].

use std::sync::LazyLock;

use leasehold_core::{
    ended::{EndChange, EndedCount},
    failure::StoreError,
    id::SessionId,
};
use redis::{Cmd, Script, Value};

use crate::store::Marks;

/// The script; `lua/ended_sessions.lua` describes it.
pub static SCRIPT: &str = include_str!("../../lua/ended_sessions.lua");

static HASH: LazyLock<String> = LazyLock::new(|| Script::new(SCRIPT).get_hash().to_owned());

/// Returns the call of the script.
pub(crate) fn command(key: &str, change: Option<EndChange>) -> Cmd {
    let mut command = redis::cmd("EVALSHA");
    command.arg(&*HASH).arg(1).arg(key);
    let (session, kept_for, count) = match change {
        None => return command,
        Some(EndChange::Mark(session, kept_for)) => (session, kept_for, EndedCount::default()),
        Some(EndChange::Count(session, count)) => (session, std::time::Duration::ZERO, count),
    };
    command.arg(&session.as_bytes()[..]);
    command.arg(u64::try_from(kept_for.as_millis()).unwrap_or(u64::MAX));
    command
        .arg(count.sessions)
        .arg(count.holds)
        .arg(count.waiters);
    command
}

/// Reads the reply.
pub(crate) fn decode(reply: Value) -> Result<Option<Marks>, StoreError> {
    read(reply).ok_or_else(|| StoreError::Garbled {
        reason: "it does not keep the marks of ended sessions as this version does".into(),
    })
}

fn read(reply: Value) -> Option<Option<Marks>> {
    let Value::Array(items) = reply else {
        return None;
    };
    let mut items = items.into_iter();
    let has_room: u8 = redis::from_redis_value(items.next()?).ok()?;
    if has_room == 0 {
        return Some(None);
    }
    let marks = items.map(|item| {
        let (id, sessions, holds, waiters): (Vec<u8>, _, _, _) =
            redis::from_redis_value(item).ok()?;
        let count = EndedCount {
            sessions,
            holds,
            waiters,
        };
        Some((SessionId::parse(&id)?, count))
    });
    marks.collect::<Option<_>>().map(Some)
}
