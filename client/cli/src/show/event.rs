//! Output of watched events: a line or a JSON document for each.

use leasehold_client::{LockNews, proto::v1};
use serde::Serialize;

use super::{
    json::{self, Wide},
    lock, text,
};

/// Returns a line: time, event, the lock's name, its token, and its holder or waiter. `locks` is the snapshot's size.
pub(crate) fn line(news: &LockNews, locks: u64) -> String {
    let (time, kind, name, token, who) = match news {
        LockNews::Lock(view) => {
            let held_since = view.holders.first().and_then(|holder| holder.acquired_at);
            let kind = match view.holders.is_empty() {
                false => "held",
                true if view.closed_for.is_some() => "closed",
                true => "free",
            };
            (
                held_since,
                kind,
                &*view.name,
                view.fencing_token,
                in_snapshot(view),
            )
        }
        LockNews::Ready => (None, "ready", "", 0, count(locks, "lock")),
        LockNews::Event(event) => {
            let token = event.fencing_token;
            (
                event.time,
                kind(event.kind()),
                &*event.name,
                token,
                about(event),
            )
        }
        LockNews::Gap(message) => (None, "gap", "", 0, text::escaped(message.as_bytes())),
        _ => (None, "unknown", "", 0, String::new()),
    };
    let name = match name {
        "" => "-".to_owned(),
        name => text::escaped(name.as_bytes()),
    };
    let (time, token) = (text::time(time), text::token(token));
    let line = format!("{time:<24}  {kind:<13}  {name}  {token}  {who}");
    line.trim_end().to_owned()
}

fn in_snapshot(view: &v1::LockView) -> String {
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
fn about(event: &v1::LockEvent) -> String {
    let mut parts = Vec::new();
    if let Some(holder) = &event.holder {
        parts.push(text::holder(holder));
        if event.kind() == v1::LockEventKind::ValueChanged {
            parts.push(format!("value {}", text::escaped(&holder.value)));
        }
    }
    parts.extend(event.waiter.as_ref().map(text::waiter));
    parts.extend(reason(event.reason()).map(str::to_owned));
    parts.extend(closed(event.closed_for));
    parts.join(", ")
}

fn closed(closed_for: Option<prost_types::Duration>) -> Option<String> {
    let left = text::wire_duration(closed_for)?;
    Some(format!("closed for {}", text::duration(left)))
}

fn count(number: u64, of: &str) -> String {
    match number {
        1 => format!("1 {of}"),
        number => format!("{number} {of}s"),
    }
}

fn kind(kind: v1::LockEventKind) -> &'static str {
    use v1::LockEventKind as Kind;

    match kind {
        Kind::Unspecified => "unknown",
        Kind::Granted => "granted",
        Kind::Queued => "queued",
        Kind::Withdrawn => "withdrawn",
        Kind::Released => "released",
        Kind::Expired => "expired",
        Kind::Lost => "lost",
        Kind::Forced => "forced",
        Kind::ValueChanged => "value-changed",
        Kind::Downgraded => "downgraded",
    }
}

fn reason(reason: v1::LostReason) -> Option<&'static str> {
    match reason {
        v1::LostReason::Unspecified => None,
        v1::LostReason::Expired => Some("it ran out"),
        v1::LostReason::Deleted => Some("it was deleted from the store"),
        v1::LostReason::Taken => Some("somebody else's lock was found in its place"),
        v1::LostReason::Forced => Some("it was force-released"),
        v1::LostReason::Resumed => Some("another stream resumed it"),
        v1::LostReason::PermissionRevoked => Some("its holder is not allowed to hold it any more"),
    }
}

/// Document: an object with one field, which names its kind.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum News {
    Lock(Box<json::Lock>),
    #[serde(rename_all = "camelCase")]
    Ready {
        lock_count: Wide<u64>,
    },
    Event(Box<Event>),
    Gap {
        message: String,
    },
    Unknown {},
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Event {
    kind: &'static str,
    name: String,
    time: Option<String>,
    fencing_token: Wide<i64>,
    holder: Option<json::Holder>,
    waiter: Option<json::Waiter>,
    reason: Option<&'static str>,
    mode: Option<&'static str>,
    holder_count: Wide<u64>,
    waiter_count: Wide<u64>,
    closed_for: Option<String>,
}

impl News {
    /// Returns the document; `locks` is the snapshot's size.
    pub(crate) fn of(news: &LockNews, locks: u64) -> Self {
        match news {
            LockNews::Lock(view) => Self::Lock(Box::new(view.into())),
            LockNews::Ready => Self::Ready {
                lock_count: Wide(locks),
            },
            LockNews::Event(event) => Self::Event(Box::new(event.into())),
            LockNews::Gap(message) => Self::Gap {
                message: message.clone(),
            },
            _ => Self::Unknown {},
        }
    }
}

impl From<&v1::LockEvent> for Event {
    fn from(event: &v1::LockEvent) -> Self {
        let reason = match event.reason() {
            v1::LostReason::Unspecified => None,
            reason => Some(reason.as_str_name()),
        };
        Self {
            kind: event.kind().as_str_name(),
            name: event.name.clone(),
            time: event.time.map(|time| time.to_string()),
            fencing_token: Wide(event.fencing_token),
            holder: event.holder.as_ref().map(json::Holder::from),
            waiter: event.waiter.as_ref().map(json::Waiter::from),
            reason,
            mode: json::mode(event.mode()),
            holder_count: Wide(event.holder_count),
            waiter_count: Wide(event.waiter_count),
            closed_for: event.closed_for.map(|duration| duration.to_string()),
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests fail by panicking")]
mod tests {
    use super::*;

    fn time(nanos: i32) -> Option<prost_types::Timestamp> {
        Some(prost_types::Timestamp { seconds: 0, nanos })
    }

    fn holder(name: &str) -> v1::Holder {
        v1::Holder {
            client_name: name.into(),
            fencing_token: 7,
            value: b"v\xff".to_vec(),
            acquired_at: time(0),
            ..Default::default()
        }
    }

    fn event(kind: v1::LockEventKind) -> v1::LockEvent {
        v1::LockEvent {
            kind: kind.into(),
            name: "orders/\u{7}".into(),
            time: time(12_345_678),
            fencing_token: 7,
            holder: Some(holder("one")),
            ..Default::default()
        }
    }

    #[test]
    fn an_event_is_told_in_a_line() {
        let granted = LockNews::Event(event(v1::LockEventKind::Granted));
        assert_eq!(
            line(&granted, 0),
            r"1970-01-01T00:00:00.012Z  granted        orders/\u{7}  7  one"
        );
        let changed = LockNews::Event(event(v1::LockEventKind::ValueChanged));
        assert_eq!(
            line(&changed, 0),
            r"1970-01-01T00:00:00.012Z  value-changed  orders/\u{7}  7  one, value v\xff"
        );
        let lost = LockNews::Event(v1::LockEvent {
            reason: v1::LostReason::Deleted.into(),
            closed_for: Some(prost_types::Duration {
                seconds: 20,
                nanos: 0,
            }),
            ..event(v1::LockEventKind::Lost)
        });
        let told = line(&lost, 0);
        assert!(
            told.ends_with("one, it was deleted from the store, closed for 20s"),
            "{told}"
        );
        let queued = LockNews::Event(v1::LockEvent {
            fencing_token: 0,
            holder: None,
            waiter: Some(v1::Waiter {
                session_id: "s1".into(),
                ..Default::default()
            }),
            ..event(v1::LockEventKind::Queued)
        });
        let told = line(&queued, 0);
        assert!(told.ends_with(r"  orders/\u{7}  -  session s1"), "{told}");
    }

    #[test]
    fn a_snapshot_and_a_gap_are_told_in_lines() {
        let mut view = v1::LockView {
            name: "a".into(),
            holders: vec![holder("one")],
            holder_count: 3,
            waiter_count: 2,
            fencing_token: 9,
            ..Default::default()
        };
        let held = line(&LockNews::Lock(view.clone()), 1);
        assert_eq!(
            held,
            "1970-01-01T00:00:00.000Z  held           a  9  one and 2 more, 2 waiting"
        );
        view.holders.clear();
        let free = line(&LockNews::Lock(view), 1);
        assert!(
            free.starts_with("-                         free "),
            "{free}"
        );
        let ready = line(&LockNews::Ready, 1);
        assert!(
            ready.contains("  ready ") && ready.ends_with("  1 lock"),
            "{ready}"
        );
        let gap = line(&LockNews::Gap("too\nslow".into()), 0);
        assert!(
            gap.contains("  gap ") && gap.ends_with(r"  too\nslow"),
            "{gap}"
        );
    }

    #[test]
    fn documents_have_the_field_names_of_the_wire_api() {
        let json = |news: &LockNews| serde_json::to_value(News::of(news, 4)).unwrap();
        let granted = json(&LockNews::Event(event(v1::LockEventKind::Granted)));
        let granted = &granted["event"];
        assert_eq!(granted["kind"], "LOCK_EVENT_KIND_GRANTED");
        assert_eq!(granted["fencingToken"], "7");
        assert_eq!(granted["holder"]["clientName"], "one");
        assert_eq!(granted["waiter"], serde_json::Value::Null);
        assert_eq!(granted["time"], "1970-01-01T00:00:00.012345678Z");
        assert_eq!(json(&LockNews::Ready)["ready"]["lockCount"], "4");
        assert_eq!(
            json(&LockNews::Gap("slow".into()))["gap"]["message"],
            "slow"
        );
        let lock = LockNews::Lock(v1::LockView {
            name: "a".into(),
            ..Default::default()
        });
        assert_eq!(json(&lock)["lock"]["name"], "a");
    }
}
