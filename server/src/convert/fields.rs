//! Checks of fields, and their conversion from protobuf.

use std::{collections::HashSet, time::Duration};

use leasehold_core::{
    command::{One, ReleaseRequest},
    id::{FencingToken, OwnerId, ReleaseRequestId, SessionId, WaiterNumber},
    mode::{MAX_LIMIT, Mode, Permits},
    name::{ClientName, LockName, ReleaseReason, TtlBounds, Value},
    session::{LockSpec, LockSpecs, MaxHold, Wait},
    time::InUnits,
};
use leasehold_proto::v1;
use leasehold_store::Store;

use crate::{
    limits::{Limits, page_too_large, too_many_names},
    status::Refusal,
};

/// Bounds of the fields of a session's messages.
#[derive(Clone, Copy, Debug)]
pub struct FieldBounds<'a> {
    /// The store, which bounds names.
    pub store: &'a Store,
    /// Bounds of TTLs and lock-delays.
    pub ttl: &'a TtlBounds,
    /// Longest wait that a client may ask for.
    pub max_wait: Duration,
    /// The limits, which bound the names of an acquire.
    pub limits: &'a Limits,
}

/// Shortest bound on the time for which a lock may be held.
pub const MIN_MAX_HOLD: Duration = Duration::from_secs(1);
/// Longest bound on the time for which a lock may be held.
pub const MAX_MAX_HOLD: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// Shortest and longest time that an operator may give holders to release a lock.
const WITHIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(24 * 60 * 60));
/// Most entries of a session's metadata.
const MAX_METADATA: usize = 16;
/// Most bytes of a metadata key.
const MAX_METADATA_KEY: usize = 64;
/// Most bytes of a metadata value.
const MAX_METADATA_VALUE: usize = 256;

/// Checks a lock's name.
pub fn lock_name(field: &str, name: &str, store: &Store) -> Result<LockName, Refusal> {
    let name = LockName::parse(name).map_err(|invalid| Refusal::field(field, invalid))?;
    store
        .check_name(&name)
        .map_err(|invalid| Refusal::field(field, invalid))?;
    Ok(name)
}

/// Parses the id of a session, as listings show it; `None` if it is malformed.
pub fn parse_session(id: &str) -> Option<SessionId> {
    // Hexadecimal digits and nothing else.
    let id = uuid::Uuid::try_parse(id).ok().filter(|_| id.len() == 32)?;
    Some(SessionId::from_bytes(id.into_bytes()))
}

/// Checks the id of a session.
pub fn session_id(field: &str, id: &str) -> Result<SessionId, Refusal> {
    let must = "must be a session's id as listings show it, 32 hexadecimal digits";
    parse_session(id).ok_or_else(|| Refusal::field(field, must))
}

/// Checks the one holder or waiter that is to be released by force.
pub fn forced_one(only: v1::force_release_request::Only) -> Result<One, Refusal> {
    use v1::force_release_request::Only;
    match only {
        Only::FencingToken(token) if token > 0 => Ok(One::Holder(FencingToken::new(token))),
        Only::FencingToken(_) => Err(Refusal::field("fencing_token", "must be positive")),
        Only::WaiterNumber(0) => Err(Refusal::field("waiter_number", "must be positive")),
        Only::WaiterNumber(number) => Ok(One::Waiter(WaiterNumber::new(number))),
    }
}

/// Checks the one holder that is asked to release a lock; every holder if 0.
pub fn asked_holder(field: &str, token: i64) -> Result<Option<FencingToken>, Refusal> {
    match token {
        ..0 => Err(Refusal::field(field, "must not be negative")),
        0 => Ok(None),
        token => Ok(Some(FencingToken::new(token))),
    }
}

/// Checks what an operator asks of holders. The request has an id of its own.
pub fn release_request(request: &v1::RequestReleaseRequest) -> Result<ReleaseRequest, Refusal> {
    let reason = ReleaseReason::parse(&request.reason);
    let reason = reason.map_err(|invalid| Refusal::field("reason", invalid))?;
    let within = duration("within", request.within)?;
    let within = within.map(|within| between("within", within, WITHIN));
    Ok(ReleaseRequest {
        id: ReleaseRequestId::new(fastrand::u64(..)),
        reason,
        within: within.transpose()?,
    })
}

/// Checks a time against the shortest and the longest.
fn between(
    field: &str,
    time: Duration,
    (least, most): (Duration, Duration),
) -> Result<Duration, Refusal> {
    if !(least..=most).contains(&time) {
        let (least, most) = (InUnits(least), InUnits(most));
        let what = format!("must be {least} to {most}, not {}", InUnits(time));
        return Err(Refusal::field(field, what));
    }
    Ok(time)
}

/// Checks an owner id.
pub fn owner_id(field: &str, bytes: &[u8]) -> Result<OwnerId, Refusal> {
    OwnerId::parse(bytes).ok_or_else(|| {
        let what = format!(
            "must be the 16 bytes that the grant gave, not {} bytes",
            bytes.len()
        );
        Refusal::field(field, what)
    })
}

/// Checks a TTL; the default if unset.
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

/// Checks a lock-delay; none if unset.
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

/// Checks a bound on the time for which a lock may be held; none if unset.
pub fn max_hold(
    field: &str,
    limit: Option<prost_types::Duration>,
) -> Result<Option<MaxHold>, Refusal> {
    let Some(limit) = duration(field, limit)? else {
        return Ok(None);
    };
    let limit = between(field, limit, (MIN_MAX_HOLD, MAX_MAX_HOLD))?;
    let is_asked = true;
    Ok(Some(MaxHold { limit, is_asked }))
}

/// Checks a wait; `default` if unset.
pub fn wait(
    field: &str,
    wait: Option<prost_types::Duration>,
    default: Wait,
    max: Duration,
) -> Result<Wait, Refusal> {
    let wait = duration(field, wait)?;
    if let Some(wait) = wait.filter(|wait| *wait > max) {
        let (most, wait) = (InUnits(max), InUnits(wait));
        return Err(Refusal::field(
            field,
            format!("must be at most {most}, not {wait}"),
        ));
    }
    Ok(match wait {
        None => default,
        Some(Duration::ZERO) => Wait::No,
        Some(wait) => Wait::For(wait),
    })
}

/// Checks a value.
pub fn value(field: &str, bytes: &[u8]) -> Result<Value, Refusal> {
    Value::parse(bytes).map_err(|invalid| Refusal::field(field, invalid))
}

/// Checks a client's name.
pub fn client_name(field: &str, name: &str) -> Result<ClientName, Refusal> {
    ClientName::parse(name).map_err(|invalid| Refusal::field(field, invalid))
}

/// Checks the key of a request that may be repeated; `None` if it has none.
pub fn request_key<'a>(field: &str, key: &'a str) -> Result<Option<&'a str>, Refusal> {
    match key.len() {
        0 => Ok(None),
        16..=128 => Ok(Some(key)),
        length => {
            let what = format!("must have 16 to 128 bytes, or none, not {length}");
            Err(Refusal::field(field, what))
        }
    }
}

/// Checks the number of permits that a hold is to keep.
pub fn kept_permits(field: &str, permits: u32) -> Result<u32, Refusal> {
    if (1..=MAX_LIMIT).contains(&permits) {
        return Ok(permits);
    }
    let what = format!("must be 1 to {MAX_LIMIT}, not {permits}");
    Err(Refusal::field(field, what))
}

/// Converts a lock's mode; `path` comes before the names of the fields.
pub fn mode(
    path: &str,
    mode: i32,
    (permits, at_least): (u32, u32),
    (limit, revision): (u32, u32),
) -> Result<Mode, Refusal> {
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
        if at_least > permits {
            let what = format!("must be 1 to `permits`, {permits}, or unset, not {at_least}");
            return Err(Refusal::field(&field("permits_at_least"), what));
        }
        return Permits::new(permits, limit)
            .map(|permits| permits.of_revision(revision).or_at_least(at_least))
            .map(Mode::Semaphore)
            .map_err(|invalid| Refusal::field(&field("permits"), invalid));
    }
    let numbers = [
        ("permits", permits),
        ("permits_at_least", at_least),
        ("limit", limit),
        ("limit_revision", revision),
    ];
    for (name, number) in numbers {
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

/// Checks the locks of an acquire on a session, all of different names.
pub fn lock_specs(
    request: &v1::SessionAcquire,
    store: &Store,
    max_names: usize,
) -> Result<LockSpecs, Refusal> {
    let locks = locks_with_modes(request, store, max_names)?;
    if let Some(locks) = LockSpecs::from_vec(locks) {
        return Ok(locks);
    }
    let (first, others) = lock_names(request, store, max_names)?;
    let limit = (request.limit, request.limit_revision);
    let permits = (request.permits, request.permits_at_least);
    let mode = mode("acquire.", request.mode, permits, limit)?;
    let spec = |name| LockSpec { name, mode };
    let others = others.into_iter().map(spec).collect();
    Ok(LockSpecs::new(spec(first), others))
}

/// Checks the locks of an acquire that has a mode for each. Returns none if it has one mode for all.
fn locks_with_modes(
    request: &v1::SessionAcquire,
    store: &Store,
    max_names: usize,
) -> Result<Vec<LockSpec>, Refusal> {
    if request.locks.is_empty() {
        return Ok(Vec::new());
    }
    let others = [
        ("acquire.name", request.name.is_empty()),
        ("acquire.names", request.names.is_empty()),
        ("acquire.mode", request.mode == 0),
        ("acquire.permits", request.permits == 0),
        ("acquire.limit", request.limit == 0),
        ("acquire.limit_revision", request.limit_revision == 0),
        ("acquire.permits_at_least", request.permits_at_least == 0),
    ];
    if let Some((field, _)) = others.iter().find(|(_, is_unset)| !is_unset) {
        let what = "must be unset where `locks` is set: each of those has a name and a mode";
        return Err(Refusal::field(field, what));
    }
    if request.locks.len() > max_names {
        return Err(too_many_names(request.locks.len(), max_names));
    }
    let mut seen = HashSet::with_capacity(request.locks.len());
    let locks = request.locks.iter().enumerate().map(|(number, lock)| {
        let path = format!("acquire.locks[{number}].");
        let field = format!("{path}name");
        let name = lock_name(&field, &lock.name, store)?;
        if !seen.insert(lock.name.as_str()) {
            let what = format!("must be different names; {:?} is there twice", lock.name);
            return Err(Refusal::field(&field, what));
        }
        let limit = (lock.limit, lock.limit_revision);
        let permits = (lock.permits, lock.permits_at_least);
        let mode = mode(&path, lock.mode, permits, limit)?;
        // Before the acquire waits for other names in vain.
        store.offers_mode(mode)?;
        Ok::<_, Refusal>(LockSpec { name, mode })
    });
    locks.collect()
}

/// Checks the names of an acquire on a session. Returns the first, and the others, all different.
fn lock_names(
    request: &v1::SessionAcquire,
    store: &Store,
    max_names: usize,
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
    if request.names.len() > max_names {
        return Err(too_many_names(request.names.len(), max_names));
    }
    let first = lock_name(FIELD, first, store)?;
    let mut seen = HashSet::from([first.as_str()]);
    let mut others = Vec::with_capacity(request.names.len() - 1);
    for name in &request.names[1..] {
        if !seen.insert(name) {
            let what = format!("must be different names; {name:?} is there twice");
            return Err(Refusal::field(FIELD, what));
        }
        others.push(lock_name(FIELD, name, store)?);
    }
    drop(seen);
    Ok((first, others))
}

/// Checks the metadata of a session.
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

/// Checks a page size; 100 if unset.
pub fn page_size(field: &str, size: i32, max: usize) -> Result<usize, Refusal> {
    match usize::try_from(size) {
        Ok(0) => Ok(max.min(100)),
        Ok(asked) if asked <= max => Ok(asked),
        Ok(_) => Err(page_too_large(size, max)),
        Err(_) => Err(Refusal::field(
            field,
            format!("must be 1 to {max}, or 0 for 100, not {size}"),
        )),
    }
}

pub(super) fn duration(
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
