//! Output of watched events: a line or a JSON document for each.

use std::{collections::BTreeMap, time::Duration};

use leasehold_client::{LockEvent, LockEventKind as Kind, LockView, LockWatchEvent, LostReason};
use serde_json::{json, to_string};

use super::{
    colour,
    json::{self, Json, Wide, document},
    lock, text,
};

/// Returns the cells of a line in one. `locks` is the snapshot's size.
pub(crate) fn line(news: &LockWatchEvent, locks: u64) -> String {
    let [time, kind, name, token, who] = cells(news, locks);
    let line = format!("{time:<24}  {kind:<13}  {name}  {token}  {who}");
    line.trim_end().to_owned()
}

/// Returns a line whose event has a colour.
pub(crate) fn coloured_line(news: &LockWatchEvent, locks: u64) -> String {
    let line = line(news, locks);
    let [_, kind, ..] = cells(news, locks);
    let style = match &*kind {
        "lost" | "expired" | "forced" | "gap" => colour::ALARM,
        "granted" | "held" => colour::GRANTED,
        "queued" | "release-requested" => colour::WAITS,
        _ => return line,
    };
    // The time before it has no such word.
    line.replacen(&kind, &colour::styled(&kind, style), 1)
}

/// Returns the time, the event, the lock's name, its token, and its holder or waiter. `locks` is the snapshot's size.
pub(crate) fn cells(news: &LockWatchEvent, locks: u64) -> [String; 5] {
    let (time, kind, name, token, who) = match news {
        LockWatchEvent::Lock(view) => {
            let held_since = view.holders.first().and_then(|holder| holder.acquired_at);
            let kind = match view.holders.is_empty() {
                false => "held",
                true if view.closed_for.is_some() => "closed",
                true => "free",
            };
            let who = in_snapshot(view);
            (held_since, kind, &*view.name, view.fencing_token, who)
        }
        LockWatchEvent::Ready => (None, "ready", "", None, count(locks, "lock")),
        LockWatchEvent::Event(event) => {
            let (kind, token) = (kind(event.kind), event.fencing_token);
            (event.time, kind, &*event.name, token, about(event))
        }
        LockWatchEvent::Gap(message) => (None, "gap", "", None, text::escaped(message)),
        _ => (None, "unknown", "", None, String::new()),
    };
    let name = match name {
        "" => "-".to_owned(),
        name => text::escaped(name),
    };
    let (time, token) = (text::time(time), text::token(token));
    [time, kind.to_owned(), name, token, who]
}

fn in_snapshot(view: &LockView) -> String {
    let holder = view.holders.first();
    let mut parts: Vec<_> = holder
        .map(|first| lock::and_more(first, view))
        .into_iter()
        .collect();
    parts.extend(closed(view.closed_for));
    if view.waiter_count > 0 {
        parts.push(format!("{} waiting", view.waiter_count));
    }
    parts.join(", ")
}

/// Describes the holder or waiter of an event, and its details.
fn about(event: &LockEvent) -> String {
    let mut parts = Vec::new();
    if let Some(holder) = &event.holder {
        parts.push(text::holder(holder));
        if event.kind == Kind::ValueChanged {
            parts.push(format!("value {}", text::escaped(&holder.value)));
        }
    }
    parts.extend(event.waiter.as_ref().map(text::waiter));
    parts.extend(event.reason.and_then(reason).map(str::to_owned));
    parts.extend(closed(event.closed_for));
    if let Some(limit) = event.limit {
        parts.push(format!(
            "limit {limit} of revision {}",
            event.limit_revision
        ));
    }
    parts.join(", ")
}

fn closed(closed_for: Option<Duration>) -> Option<String> {
    Some(format!("closed for {}", text::duration(closed_for?)))
}

fn count(number: u64, of: &str) -> String {
    match number {
        1 => format!("1 {of}"),
        number => format!("{number} {of}s"),
    }
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Granted => "granted",
        Kind::Queued => "queued",
        Kind::Withdrawn => "withdrawn",
        Kind::Released => "released",
        Kind::Expired => "expired",
        Kind::Lost => "lost",
        Kind::Forced => "forced",
        Kind::ValueChanged => "value-changed",
        Kind::Downgraded => "downgraded",
        Kind::PermitsReduced => "permits-reduced",
        Kind::LimitChanged => "limit-changed",
        Kind::ReleaseRequested => "release-requested",
        _ => "unknown",
    }
}

fn reason(reason: LostReason) -> Option<&'static str> {
    match reason {
        LostReason::Expired => Some("it ran out"),
        LostReason::Deleted => Some("it was deleted from the store"),
        LostReason::Taken => Some("somebody else's lock was found in its place"),
        LostReason::Forced => Some("it was force-released"),
        LostReason::Resumed => Some("another stream resumed it"),
        LostReason::MaxHold => Some("it was held for as long as it may be"),
        LostReason::PermissionRevoked => Some("its holder is not allowed to hold it any more"),
        _ => None,
    }
}

/// Returns an item as JSON; `locks` is the snapshot's size.
pub(crate) fn document(news: &LockWatchEvent, locks: u64) -> serde_json::Result<String> {
    match news {
        LockWatchEvent::Lock(view) => to_string(&BTreeMap::from([("lock", Json(view))])),
        LockWatchEvent::Ready => to_string(&json!({ "ready": { "lockCount": Wide(locks) } })),
        LockWatchEvent::Event(event) => to_string(&BTreeMap::from([("event", Json(event))])),
        LockWatchEvent::Gap(message) => to_string(&json!({ "gap": { "message": message } })),
        _ => to_string(&json!({ "unknown": {} })),
    }
}

document!(event: LockEvent {
    "kind": json::name("LOCK_EVENT_KIND", kind(event.kind).replace("unknown", "unspecified")),
    "name": event.name,
    "time": event.time.map(json::time),
    "fencingToken": json::token(event.fencing_token),
    "holder": event.holder.as_ref().map(Json),
    "waiter": event.waiter.as_ref().map(Json),
    "reason": event.reason.and_then(text::loss).map(|reason| json::name("LOST_REASON", reason)),
    "mode": event.mode.map(json::mode),
    "holderCount": Wide(event.holder_count),
    "waiterCount": Wide(event.waiter_count),
    "closedFor": event.closed_for.map(json::duration),
    "limit": event.limit,
    "limitRevision": event.limit.map(|_| event.limit_revision),
});

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests fail by panicking")]
mod tests {
    use std::time::SystemTime;

    use leasehold_client::{Holder, Waiter};

    use super::*;

    fn time(nanos: u32) -> Option<SystemTime> {
        Some(SystemTime::UNIX_EPOCH + Duration::new(0, nanos))
    }

    fn holder(name: &str) -> Holder {
        let mut holder = Holder::default();
        holder.client_name = name.into();
        holder.fencing_token = Some(7.into());
        holder.value = b"v\xff".to_vec();
        holder.acquired_at = time(0);
        holder
    }

    fn event(kind: Kind) -> LockEvent {
        let mut event = LockEvent::default();
        event.kind = kind;
        event.name = "orders/\u{7}".into();
        event.time = time(12_345_678);
        event.fencing_token = Some(7.into());
        event.holder = Some(holder("one"));
        event
    }

    #[test]
    fn an_event_has_a_colour_where_it_is_wanted() {
        let line = coloured_line(&LockWatchEvent::Event(event(Kind::Lost)), 0);
        let expected = "1970-01-01T00:00:00.012Z  \u{1b}[31mlost\u{1b}[0m           orders/";
        assert!(line.starts_with(expected), "{line:?}");
    }

    #[test]
    fn an_event_is_told_in_a_line() {
        let granted = LockWatchEvent::Event(event(Kind::Granted));
        assert_eq!(
            line(&granted, 0),
            r"1970-01-01T00:00:00.012Z  granted        orders/\u{7}  7  one"
        );
        let changed = LockWatchEvent::Event(event(Kind::ValueChanged));
        assert_eq!(
            line(&changed, 0),
            r"1970-01-01T00:00:00.012Z  value-changed  orders/\u{7}  7  one, value v\xff"
        );
        let mut lost = event(Kind::Lost);
        lost.reason = Some(LostReason::Deleted);
        lost.closed_for = Some(Duration::from_secs(20));
        let told = line(&LockWatchEvent::Event(lost), 0);
        assert!(
            told.ends_with("one, it was deleted from the store, closed for 20s"),
            "{told}"
        );
        let mut limit = event(Kind::LimitChanged);
        (limit.fencing_token, limit.holder) = (None, None);
        (limit.limit, limit.limit_revision) = (Some(8), 2);
        assert_eq!(
            line(&LockWatchEvent::Event(limit), 0),
            r"1970-01-01T00:00:00.012Z  limit-changed  orders/\u{7}  -  limit 8 of revision 2"
        );
        let mut waiter = Waiter::default();
        waiter.session_id = "s1".into();
        let mut queued = event(Kind::Queued);
        queued.fencing_token = None;
        queued.holder = None;
        queued.waiter = Some(waiter);
        let told = line(&LockWatchEvent::Event(queued), 0);
        assert!(told.ends_with(r"  orders/\u{7}  -  session s1"), "{told}");
    }

    #[test]
    fn a_snapshot_and_a_gap_are_told_in_lines() {
        let mut view = LockView::default();
        view.name = "a".into();
        view.holders = vec![holder("one")];
        view.holder_count = 3;
        view.waiter_count = 2;
        view.fencing_token = Some(9.into());
        let held = line(&LockWatchEvent::Lock(view.clone()), 1);
        assert_eq!(
            held,
            "1970-01-01T00:00:00.000Z  held           a  9  one and 2 more, 2 waiting"
        );
        view.holders.clear();
        let free = line(&LockWatchEvent::Lock(view), 1);
        assert!(
            free.starts_with("-                         free "),
            "{free}"
        );
        let ready = line(&LockWatchEvent::Ready, 1);
        assert!(
            ready.contains("  ready ") && ready.ends_with("  1 lock"),
            "{ready}"
        );
        let gap = line(&LockWatchEvent::Gap("too\nslow".into()), 0);
        assert!(
            gap.contains("  gap ") && gap.ends_with(r"  too\nslow"),
            "{gap}"
        );
    }

    #[test]
    fn documents_have_the_field_names_of_the_wire_api() {
        let json = |news: &LockWatchEvent| -> serde_json::Value {
            serde_json::from_str(&document(news, 4).unwrap()).unwrap()
        };
        let granted = json(&LockWatchEvent::Event(event(Kind::Granted)));
        let granted = &granted["event"];
        assert_eq!(granted["kind"], "LOCK_EVENT_KIND_GRANTED");
        assert_eq!(granted["fencingToken"], "7");
        assert_eq!(granted["holder"]["clientName"], "one");
        assert_eq!(granted["waiter"], serde_json::Value::Null);
        assert_eq!(granted["time"], "1970-01-01T00:00:00.012345678Z");
        assert_eq!(json(&LockWatchEvent::Ready)["ready"]["lockCount"], "4");
        assert_eq!(
            json(&LockWatchEvent::Gap("slow".into()))["gap"]["message"],
            "slow"
        );
        let mut lock = LockView::default();
        lock.name = "a".into();
        let lock = LockWatchEvent::Lock(lock);
        assert_eq!(json(&lock)["lock"]["name"], "a");
    }
}
