//! Marks of sessions that operators have ended: see [`leasehold_core::ended`].

use std::{sync::LazyLock, time::Duration};

use leasehold_core::{
    ended::{EndChange, EndedCount, Mark},
    failure::StoreError,
    id::SessionId,
};
use redis::{Cmd, Script, Value};

use crate::store::Marks;

/// The script; `lua/ended_sessions.lua` describes it.
pub static SCRIPT: &str = include_str!("../../lua/ended_sessions.lua");

static HASH: LazyLock<String> = LazyLock::new(|| Script::new(SCRIPT).get_hash().to_owned());

/// Returns the call of the script.
pub(crate) fn command(key: &str, change: Option<&EndChange>) -> Cmd {
    let mut command = redis::cmd("EVALSHA");
    command.arg(&*HASH).arg(1).arg(key);
    let Some(change) = change else {
        return command;
    };
    let millis = |time: &Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    let (kept_for, count) = match change {
        EndChange::Mark(_, kept_for) => (millis(kept_for), EndedCount::default()),
        EndChange::Count(_, count) => (0, *count),
        EndChange::Settle(_, kept_for) => (-millis(kept_for), EndedCount::default()),
    };
    let mark = change.mark();
    command.arg([&mark.session.as_bytes()[..], mark.by.as_bytes()].concat());
    command.arg(kept_for);
    let EndedCount {
        sessions,
        holds,
        waiters,
        denied,
    } = count;
    command.arg(&[sessions, holds, waiters, denied]);
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
        let (mark, sessions, holds, waiters, denied): (Vec<u8>, _, _, _, _) =
            redis::from_redis_value(item).ok()?;
        let count = EndedCount {
            sessions,
            holds,
            waiters,
            denied,
        };
        let (session, by) = mark.split_at_checked(16)?;
        let mark = Mark {
            session: SessionId::parse(session)?,
            by: String::from_utf8(by.to_vec()).ok()?.into(),
        };
        Some((mark, count))
    });
    marks.collect::<Option<_>>().map(Some)
}
