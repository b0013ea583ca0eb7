//! Between protobuf and the rules: the one place where fields are checked and answers are put together.

use std::{
    collections::HashSet,
    time::{Duration, SystemTime},
};

use leasehold_core::{
    command::Loss,
    id::OwnerId,
    mode::{MAX_LIMIT, Mode, Permits},
    name::{ClientName, LockName, TtlBounds, Value},
    time::StoreTime,
    view::{HoldView, HolderView, NameView, WaiterView},
};
use leasehold_proto::v1;
use leasehold_store::{LockStore, Store};
use prost_types::Timestamp;

use crate::{coordinator::acquire::Wait, status::Refusal};

/// Most names of one acquire.
const MAX_NAMES: usize = 64;
/// Most entries of a session's metadata.
const MAX_METADATA: usize = 16;
/// Most bytes of a metadata key.
const MAX_METADATA_KEY: usize = 64;
/// Most bytes of a metadata value.
const MAX_METADATA_VALUE: usize = 256;

/// A lock's name.
pub fn lock_name(field: &str, name: &str, store: &Store) -> Result<LockName, Refusal> {
    let name = LockName::parse(name).map_err(|invalid| Refusal::field(field, invalid))?;
    store
        .check_name(&name)
        .map_err(|invalid| Refusal::field(field, invalid))?;
    Ok(name)
}

/// An owner id.
pub fn owner_id(field: &str, bytes: &[u8]) -> Result<OwnerId, Refusal> {
    OwnerId::parse(bytes).ok_or_else(|| {
        let what = format!(
            "must be the 16 bytes that the grant gave, not {} bytes",
            bytes.len()
        );
        Refusal::field(field, what)
    })
}

/// A TTL, the default where unset.
pub fn ttl(
    field: &str,
    ttl: Option<prost_types::Duration>,
    bounds: &TtlBounds,
) -> Result<Duration, Refusal> {
    match duration(field, ttl)? {
        None => Ok(bounds.default),
        Some(ttl) => bounds
            .check(ttl)
            .map_err(|invalid| Refusal::field(field, invalid)),
    }
}

/// A lock-delay, none where unset.
pub fn lock_delay(
    field: &str,
    delay: Option<prost_types::Duration>,
    bounds: &TtlBounds,
) -> Result<Duration, Refusal> {
    let delay = duration(field, delay)?.unwrap_or_default();
    bounds
        .check_delay(delay)
        .map_err(|invalid| Refusal::field(field, invalid))
}

/// A wait, `default` where unset.
pub fn wait(
    field: &str,
    wait: Option<prost_types::Duration>,
    default: Wait,
    max: Duration,
) -> Result<Wait, Refusal> {
    let wait = duration(field, wait)?;
    if wait.is_some_and(|wait| wait > max) {
        return Err(Refusal::field(field, format!("must be at most {max:?}")));
    }
    Ok(Wait::from_wire(wait, default))
}

/// A value.
pub fn value(field: &str, bytes: &[u8]) -> Result<Value, Refusal> {
    Value::parse(bytes).map_err(|invalid| Refusal::field(field, invalid))
}

/// A client's name.
pub fn client_name(field: &str, name: &str) -> Result<ClientName, Refusal> {
    ClientName::parse(name).map_err(|invalid| Refusal::field(field, invalid))
}

/// How a lock is to be held; `path` comes before the names of the fields.
pub fn mode(path: &str, mode: i32, permits: u32, limit: u32) -> Result<Mode, Refusal> {
    let field = |name: &str| format!("{path}{name}");
    let asked = v1::LockMode::try_from(mode).map_err(|_| {
        let what = format!(
            "must be LOCK_MODE_EXCLUSIVE, LOCK_MODE_SHARED, LOCK_MODE_SEMAPHORE or unset, not {mode}"
        );
        Refusal::field(&field("mode"), what)
    })?;
    if asked == v1::LockMode::Semaphore {
        let permits = if permits == 0 { 1 } else { permits };
        if !(1..=MAX_LIMIT).contains(&limit) {
            let what = format!("must be 1 to {MAX_LIMIT} for a semaphore, not {limit}");
            return Err(Refusal::field(&field("limit"), what));
        }
        return Permits::new(permits, limit)
            .map(Mode::Semaphore)
            .map_err(|invalid| Refusal::field(&field("permits"), invalid));
    }
    for (name, number) in [("permits", permits), ("limit", limit)] {
        if number != 0 {
            let what = "must be unset but for a semaphore (LOCK_MODE_SEMAPHORE)";
            return Err(Refusal::field(&field(name), what));
        }
    }
    Ok(match asked {
        v1::LockMode::Shared => Mode::Shared,
        _ => Mode::Exclusive,
    })
}

/// The names of an acquire on a session: one, or several that are all different.
pub fn lock_names(
    request: &v1::SessionAcquire,
    store: &Store,
) -> Result<(LockName, Vec<LockName>), Refusal> {
    const FIELD: &str = "acquire.names";
    let [first, ..] = &request.names[..] else {
        let name = lock_name("acquire.name", &request.name, store)?;
        return Ok((name, Vec::new()));
    };
    if !request.name.is_empty() {
        let what = "must be empty where `name` is set: ask for one name or for several";
        return Err(Refusal::field(FIELD, what));
    }
    if request.names.len() > MAX_NAMES {
        let what = format!(
            "must be at most {MAX_NAMES} names, not {}",
            request.names.len()
        );
        return Err(Refusal::field(FIELD, what));
    }
    let first = lock_name(FIELD, first, store)?;
    let mut seen = HashSet::new();
    let mut names = Vec::with_capacity(request.names.len());
    for name in &request.names {
        if !seen.insert(name) {
            let what = format!("must be different names; {name:?} is there twice");
            return Err(Refusal::field(FIELD, what));
        }
        names.push(lock_name(FIELD, name, store)?);
    }
    Ok((first, names))
}

/// What a session says of itself.
pub fn metadata(
    field: &str,
    metadata: &std::collections::HashMap<String, String>,
) -> Result<(), Refusal> {
    if metadata.len() > MAX_METADATA {
        let what = format!(
            "must have at most {MAX_METADATA} entries, not {}",
            metadata.len()
        );
        return Err(Refusal::field(field, what));
    }
    let fits = |(key, value): (&String, &String)| {
        (1..=MAX_METADATA_KEY).contains(&key.len()) && value.len() <= MAX_METADATA_VALUE
    };
    if !metadata.iter().all(fits) {
        let what = format!(
            "must have keys of 1 to {MAX_METADATA_KEY} bytes and values of at most {MAX_METADATA_VALUE} bytes"
        );
        return Err(Refusal::field(field, what));
    }
    Ok(())
}

/// A page size, 100 where unset.
pub fn page_size(field: &str, size: i32) -> Result<usize, Refusal> {
    match size {
        0 => Ok(100),
        1..=1000 => Ok(size.unsigned_abs() as usize),
        _ => Err(Refusal::field(
            field,
            format!("must be 1 to 1000, or 0 for 100, not {size}"),
        )),
    }
}

fn duration(
    field: &str,
    duration: Option<prost_types::Duration>,
) -> Result<Option<Duration>, Refusal> {
    // By hand: the conversion of `prost_types` normalises what is not valid, and overflows on some of it.
    let Some(duration) = duration else {
        return Ok(None);
    };
    let seconds = u64::try_from(duration.seconds).ok();
    let nanos = u32::try_from(duration.nanos)
        .ok()
        .filter(|nanos| *nanos < 1_000_000_000);
    match seconds.zip(nanos) {
        Some((seconds, nanos)) => Ok(Some(Duration::new(seconds, nanos))),
        None => Err(Refusal::field(
            field,
            "must be a valid duration, not negative",
        )),
    }
}

/// A duration for the wire; one too long for it, which no bound lets happen, is the longest.
pub fn wire_duration(duration: Duration) -> prost_types::Duration {
    duration.try_into().unwrap_or(prost_types::Duration {
        seconds: i64::MAX,
        nanos: 0,
    })
}

/// A moment of the store's clock for the wire.
fn wire_time(time: StoreTime) -> Timestamp {
    let micros = u64::try_from(time.as_micros()).unwrap_or(0);
    (SystemTime::UNIX_EPOCH + Duration::from_micros(micros)).into()
}

/// Who holds a lock.
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

fn hold_view(hold: &HoldView) -> v1::Holder {
    v1::Holder {
        session_id: hold
            .session
            .map(|session| session.to_string())
            .unwrap_or_default(),
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
    }
}

fn waiter(position: u64, waiter: &WaiterView) -> v1::Waiter {
    v1::Waiter {
        session_id: waiter
            .session
            .map(|session| session.to_string())
            .unwrap_or_default(),
        client_name: waiter.client_name.as_str().to_owned(),
        coordinator: waiter.coordinator.to_string(),
        waiting_since: Some(wire_time(waiter.since)),
        position,
        mode: wire_mode(waiter.mode).into(),
        permits: waiter.mode.permits(),
        actor: waiter.actor.get(),
    }
}

/// Everything that can be seen of a lock.
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
        limit: view.limit.unwrap_or(0),
        // Never more than the limit.
        permits_taken: u32::try_from(view.permits_taken).unwrap_or(u32::MAX),
    }
}

/// How a lock is held.
fn wire_mode(mode: Mode) -> v1::LockMode {
    match mode {
        Mode::Exclusive => v1::LockMode::Exclusive,
        Mode::Shared => v1::LockMode::Shared,
        Mode::Semaphore(_) => v1::LockMode::Semaphore,
    }
}

/// Why a hold was lost.
pub fn lost_reason(loss: Loss) -> v1::LostReason {
    match loss {
        Loss::Expired => v1::LostReason::Expired,
        Loss::Deleted => v1::LostReason::Deleted,
        Loss::Taken => v1::LostReason::Taken,
        Loss::Forced => v1::LostReason::Forced,
    }
}

/// A lock that was lost.
pub fn lost_lock(name: &LockName, owner: &OwnerId, loss: Loss) -> v1::LostLock {
    v1::LostLock {
        name: name.as_str().to_owned(),
        owner_id: owner.as_bytes().to_vec(),
        reason: lost_reason(loss).into(),
    }
}

/// Lost locks in messages of bounded size: a thousand names of the longest kind stay below 1 MiB.
pub fn lost_messages(locks: Vec<v1::LostLock>) -> Vec<v1::SessionLost> {
    locks
        .chunks(1000)
        .map(|locks| v1::SessionLost {
            locks: locks.to_vec(),
        })
        .collect()
}

/// A loss in the metrics.
pub fn lost_reason_label(loss: Loss) -> &'static str {
    match loss {
        Loss::Expired => "expired",
        Loss::Deleted => "deleted",
        Loss::Taken => "taken",
        Loss::Forced => "forced",
    }
}
