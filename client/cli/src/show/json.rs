//! JSON for programs: the messages of the wire API in proto3's JSON format. Fields have their JSON names, 64-bit integers
//! are strings, durations are seconds with an `s`, times are RFC 3339, bytes are base64, enums are their names. Every field
//! is present: one that is unset, or has no meaning for this lock, is null.

use std::{
    collections::BTreeMap,
    fmt,
    time::{Duration, SystemTime},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use leasehold_client::{
    FencingToken, ForceReleased, Holder, LockMode, LockPage, LockView, SessionEnded, SessionView,
    TokenCheck, Waiter,
};
use serde::{Serialize, Serializer};

/// 64-bit integer, which proto3 writes as a string: a program that reads numbers as floating-point would round it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Wide<T>(pub(crate) T);

impl<T: fmt::Display> Serialize for Wide<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// View of a value as a document. [`document`] says which fields it has.
#[derive(Clone, Copy)]
pub(crate) struct Json<'a, T>(pub(crate) &'a T);

/// Defines the document of a type: an object with these fields, in this order.
macro_rules! document {
    ($of:ident: $type:ty { $($name:literal: $value:expr,)* }) => {
        impl serde::Serialize for $crate::show::json::Json<'_, $type> {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap;

                let $of = self.0;
                let mut map = serializer.serialize_map(None)?;
                $(map.serialize_entry($name, &$value)?;)*
                map.end()
            }
        }
    };
}
pub(crate) use document;

impl<T> Serialize for Json<'_, Vec<T>>
where
    for<'a> Json<'a, T>: Serialize,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(Json))
    }
}

/// Numbers by name.
pub(crate) type ByName<'a> = BTreeMap<&'a str, Wide<u64>>;

/// Returns bytes as text.
pub(super) fn bytes(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Returns a duration as text: seconds with an `s`.
pub(crate) fn duration(duration: Duration) -> String {
    prost_types::Duration::try_from(duration).map_or_else(
        |_| format!("{}s", duration.as_secs()),
        |duration| duration.to_string(),
    )
}

/// Returns a time as text: RFC 3339.
pub(crate) fn time(time: SystemTime) -> String {
    prost_types::Timestamp::from(time).to_string()
}

/// Returns a token, which the wire API writes as 0 if there is none.
pub(crate) fn token(token: Option<FencingToken>) -> Wide<i64> {
    Wide(token.map_or(0, FencingToken::get))
}

/// Returns the wire API's name of an enum's value: the enum's name, then the value's word, in capitals.
pub(super) fn name(of: &str, word: impl fmt::Display) -> String {
    format!("{of}_{}", word.to_string().to_uppercase().replace('-', "_"))
}

/// Returns the name of a mode.
pub(super) fn mode(mode: LockMode) -> String {
    name("LOCK_MODE", mode)
}

document!(view: LockView {
    "name": view.name,
    "mode": view.mode.map(mode),
    "holders": Json(&view.holders),
    "holderCount": Wide(view.holder_count),
    // Null except for semaphores.
    "limit": view.limit,
    "limitRevision": view.limit.map(|_| view.limit_revision),
    "permitsTaken": view.limit.map(|_| view.permits_taken),
    "waiters": Json(&view.waiters),
    "waiterCount": Wide(view.waiter_count),
    "fencingToken": token(view.fencing_token),
    "closedFor": view.closed_for.map(duration),
    "lockDelay": view.lock_delay.map(duration),
});

document!(page: LockPage {
    "locks": Json(&page.locks),
    "nextPageToken": page.next_page_token,
});

document!(checked: TokenCheck {
    "current": checked.current,
    "newestToken": token(checked.newest_token),
});

document!(holder: Holder {
    "sessionId": holder.session_id,
    "clientName": holder.client_name,
    "coordinator": holder.coordinator,
    "fencingToken": token(holder.fencing_token),
    "acquiredAt": holder.acquired_at.map(time),
    "ttl": holder.ttl.map(duration),
    "value": bytes(&holder.value),
    "holdCount": holder.hold_count,
    "permits": holder.permits,
    "actor": holder.actor.map(Wide),
    "maxHold": holder.max_hold.map(duration),
    "peer": holder.peer,
    "foreign": holder.foreign,
});

document!(waiter: Waiter {
    "sessionId": waiter.session_id,
    "clientName": waiter.client_name,
    "coordinator": waiter.coordinator,
    "waitingSince": waiter.waiting_since.map(time),
    "position": Wide(waiter.position),
    "mode": waiter.mode.map(mode),
    "permits": waiter.permits,
    "permitsAtLeast": waiter.permits_at_least,
    "actor": waiter.actor.map(Wide),
    "number": waiter.number.map(Wide),
    "peer": waiter.peer,
});

document!(session: SessionView {
    "sessionId": session.session_id,
    "clientName": session.client_name,
    "peer": session.peer,
    "coordinator": session.coordinator,
    "ttl": duration(session.ttl),
    "openedAt": session.opened_at.map(time),
    "sinceHeartbeat": duration(session.since_heartbeat),
    "holdCount": session.hold_count,
    "waiterCount": session.waiter_count,
    "metadata": session.metadata.iter().collect::<BTreeMap<_, _>>(),
    "identity": session.identity,
});

document!(answer: SessionEnded {
    "ended": answer.ended,
    "sessionCount": answer.session_count,
    "holdCount": answer.hold_count,
    "waiterCount": answer.waiter_count,
});

/// Number of holds that were asked to be released.
#[derive(Debug)]
pub(crate) struct Asked(pub(crate) u32);

document!(answer: Asked {
    "askedCount": answer.0,
});

document!(answer: ForceReleased {
    "released": answer.released,
    "fencingToken": token(answer.fencing_token),
});

#[cfg(test)]
mod tests;
