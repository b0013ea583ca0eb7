//! Conversion of the rules' types to protobuf.

use std::time::{Duration, SystemTime};

use leasehold_core::{
    command::Loss,
    id::SessionId,
    mode::Mode,
    name::LockName,
    time::StoreTime,
    view::{HoldView, HolderView, NameView, WaiterView},
    watch::{Event, EventKind, Leader},
};
use leasehold_proto::v1;
use prost_types::Timestamp;

use crate::watch::watchers::Message;

/// Most bytes of a value in a listing, and in a snapshot of a lock whose values are many.
pub const LISTED_VALUE: usize = 64;
/// Most bytes that the values of a lock in a snapshot have in all while they are whole.
const WHOLE_VALUES: usize = 64 << 10;

/// Encodes a duration. Replaces one that is too long for the wire, which no bound admits, by the longest.
pub fn wire_duration(duration: Duration) -> prost_types::Duration {
    duration.try_into().unwrap_or(prost_types::Duration {
        seconds: i64::MAX,
        nanos: 0,
    })
}

/// Encodes a moment of the store's clock.
fn wire_time(time: StoreTime) -> Timestamp {
    let micros = u64::try_from(time.as_micros()).unwrap_or(0);
    (SystemTime::UNIX_EPOCH + Duration::from_micros(micros)).into()
}

/// Encodes the holder of a lock.
pub fn holder(view: &HolderView) -> v1::Holder {
    match view {
        HolderView::Foreign { expires_in } => v1::Holder {
            ttl: expires_in.map(wire_duration),
            foreign: true,
            ..Default::default()
        },
        HolderView::Ours(hold) => hold_view(hold),
    }
}

/// Returns a session's id, empty for the unary calls.
fn session_id(session: Option<SessionId>) -> String {
    session.map(|id| id.to_string()).unwrap_or_default()
}

fn hold_view(hold: &HoldView) -> v1::Holder {
    v1::Holder {
        session_id: session_id(hold.session),
        client_name: hold.client_name.as_str().to_owned(),
        coordinator: hold.coordinator.to_string(),
        fencing_token: hold.token.get(),
        acquired_at: Some(wire_time(hold.acquired_at)),
        ttl: Some(wire_duration(hold.expires_in)),
        value: hold.value.as_bytes().to_vec(),
        hold_count: hold.count,
        foreign: false,
        permits: hold.mode.permits(),
        actor: hold.actor.get(),
        max_hold: hold.max_hold.map(wire_duration),
        peer: String::new(),
    }
}

fn waiter(position: u64, waiter: &WaiterView) -> v1::Waiter {
    v1::Waiter {
        session_id: session_id(waiter.session),
        client_name: waiter.client_name.as_str().to_owned(),
        coordinator: waiter.coordinator.to_string(),
        waiting_since: Some(wire_time(waiter.since)),
        position,
        mode: wire_mode(waiter.mode).into(),
        permits: waiter.mode.permits(),
        actor: waiter.actor.get(),
        number: waiter.number.get(),
        permits_at_least: match waiter.mode {
            Mode::Semaphore(permits) => permits.at_least().unwrap_or(0),
            Mode::Exclusive | Mode::Shared => 0,
        },
        peer: String::new(),
    }
}

/// Encodes the full view of a lock.
pub fn lock_view(name: &LockName, view: &NameView) -> v1::LockView {
    let ours = view.holders.iter().filter_map(|holder| match holder {
        HolderView::Ours(hold) => Some(hold),
        HolderView::Foreign { .. } => None,
    });
    let lock_delay = ours.clone().map(|hold| hold.lock_delay).max();
    let mode = match ours.clone().next() {
        Some(hold) => wire_mode(hold.mode),
        None if !view.holders.is_empty() => v1::LockMode::Exclusive,
        None if view.permits_taken > 0 => v1::LockMode::Semaphore,
        None => v1::LockMode::Unspecified,
    };
    v1::LockView {
        name: name.as_str().to_owned(),
        mode: mode.into(),
        holders: view.holders.iter().map(holder).collect(),
        waiters: (1..)
            .zip(&view.waiters)
            .map(|(position, view)| waiter(position, view))
            .collect(),
        waiter_count: view.waiter_count,
        fencing_token: view.token.map_or(0, |token| token.get()),
        closed_for: view.closed_for.map(wire_duration),
        lock_delay: lock_delay
            .filter(|delay| !delay.is_zero())
            .map(wire_duration),
        holder_count: view.holder_count,
        limit: view.limit.map_or(0, |limit| limit.number),
        // Never more than the largest limit.
        permits_taken: u32::try_from(view.permits_taken).unwrap_or(u32::MAX),
        limit_revision: view.limit.map_or(0, |limit| limit.revision),
    }
}

/// Encodes a message to a watcher.
pub fn watch_message(message: &Message) -> v1::WatchLocksResponse {
    use v1::watch_locks_response::Response;
    let response = match message {
        Message::Lock(name, view) => Response::Lock(snapshot_view(name, view)),
        Message::Ready { lock_count } => Response::Ready(v1::WatchReady {
            lock_count: *lock_count,
        }),
        Message::Event(event) => Response::Event(lock_event(event)),
        Message::Gap(why) => Response::Gap(v1::WatchGap {
            message: (*why).to_owned(),
        }),
    };
    v1::WatchLocksResponse {
        response: Some(response),
    }
}

/// Encodes the view of a lock in a snapshot. Whoever does not read has one in memory for each stream, so it has few bytes of values.
fn snapshot_view(name: &LockName, view: &NameView) -> v1::LockView {
    let mut view = lock_view(name, view);
    let bytes: usize = view.holders.iter().map(|holder| holder.value.len()).sum();
    if bytes > WHOLE_VALUES {
        for holder in &mut view.holders {
            holder.value.truncate(LISTED_VALUE);
        }
    }
    view
}

/// Encodes an event of a lock.
fn lock_event(event: &Event) -> v1::LockEvent {
    let token = match &event.holder {
        Some(HolderView::Ours(hold)) => hold.token.get(),
        _ => 0,
    };
    let reason = match event.kind {
        EventKind::Lost(loss) => lost_reason(loss),
        _ => v1::LostReason::Unspecified,
    };
    v1::LockEvent {
        kind: event_kind(event.kind).into(),
        name: event.name.as_str().to_owned(),
        time: Some(wire_time(event.at)),
        fencing_token: token,
        holder: event.holder.as_ref().map(holder),
        waiter: event
            .waiter
            .as_ref()
            .map(|(view, position)| waiter(position.unwrap_or(0), view)),
        reason: reason.into(),
        mode: event
            .after
            .mode
            .map_or(v1::LockMode::Unspecified, wire_mode)
            .into(),
        holder_count: event.after.holder_count,
        waiter_count: event.after.waiter_count,
        closed_for: event.closed_for.map(wire_duration),
        limit: event.limit.map_or(0, |limit| limit.number),
        limit_revision: event.limit.map_or(0, |limit| limit.revision),
    }
}

fn event_kind(kind: EventKind) -> v1::LockEventKind {
    match kind {
        EventKind::Granted => v1::LockEventKind::Granted,
        EventKind::Queued => v1::LockEventKind::Queued,
        EventKind::Withdrawn => v1::LockEventKind::Withdrawn,
        EventKind::Released => v1::LockEventKind::Released,
        EventKind::Expired => v1::LockEventKind::Expired,
        EventKind::Lost(_) => v1::LockEventKind::Lost,
        EventKind::Forced => v1::LockEventKind::Forced,
        EventKind::ValueChanged => v1::LockEventKind::ValueChanged,
        EventKind::Downgraded => v1::LockEventKind::Downgraded,
        EventKind::PermitsReduced => v1::LockEventKind::PermitsReduced,
        EventKind::LimitChanged => v1::LockEventKind::LimitChanged,
        EventKind::ReleaseRequested => v1::LockEventKind::ReleaseRequested,
    }
}

/// Encodes the leader of an election.
pub fn leader(leader: &Leader) -> v1::Leader {
    let hold = &leader.0;
    v1::Leader {
        fencing_token: hold.token.get(),
        value: hold.value.as_bytes().to_vec(),
        client_name: hold.client_name.as_str().to_owned(),
        session_id: session_id(hold.session),
        coordinator: hold.coordinator.to_string(),
        elected_at: Some(wire_time(hold.acquired_at)),
    }
}

/// Encodes the mode of a lock.
fn wire_mode(mode: Mode) -> v1::LockMode {
    match mode {
        Mode::Exclusive => v1::LockMode::Exclusive,
        Mode::Shared => v1::LockMode::Shared,
        Mode::Semaphore(_) => v1::LockMode::Semaphore,
    }
}

/// Encodes the reason for which a hold was lost.
pub fn lost_reason(loss: Loss) -> v1::LostReason {
    match loss {
        Loss::Expired => v1::LostReason::Expired,
        Loss::Deleted => v1::LostReason::Deleted,
        Loss::Taken => v1::LostReason::Taken,
        Loss::Forced => v1::LostReason::Forced,
        Loss::Resumed => v1::LostReason::Resumed,
    }
}

/// Encodes lost locks in messages of bounded size: a thousand names of the longest kind stay below 1 MiB.
pub fn lost_messages(locks: Vec<v1::LostLock>) -> Vec<v1::SessionLost> {
    locks
        .chunks(1000)
        .map(|locks| v1::SessionLost {
            locks: locks.to_vec(),
        })
        .collect()
}

/// Returns the label of a loss in the metrics.
pub fn lost_reason_label(loss: Loss) -> &'static str {
    match loss {
        Loss::Expired => "expired",
        Loss::Deleted => "deleted",
        Loss::Taken => "taken",
        Loss::Forced => "forced",
        Loss::Resumed => "resumed",
    }
}
