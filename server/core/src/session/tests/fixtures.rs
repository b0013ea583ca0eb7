//! Fixtures that the tests share: times, a configuration, acquires, errors, owner ids, and short names of operations.

use super::*;

pub(super) const TTL: Duration = Duration::from_secs(9);
pub(super) const GRACE: Duration = Duration::from_secs(3);
pub(super) const STORE_TIMEOUT: Duration = Duration::from_millis(500);
/// The request that opened the session.
pub(super) const OPEN: RequestId = 1;
/// Session and owner id of somebody else.
pub(super) const OTHER: [u8; 16] = [0xee; 16];
/// Time at which a scene begins (µs), also by the store's clock.
pub(super) const BEGAN_AT: i64 = 1_000_000;
/// Token of the first grant of a name, if that is made when the scene begins.
pub(super) const FIRST_TOKEN: FencingToken = FencingToken::new(BEGAN_AT);

pub(super) fn name(text: &str) -> LockName {
    LockName::parse(text).unwrap()
}

/// Returns the event of a grant by a command that was sent then.
pub(super) fn granted_then(sent_at: Moment) -> RegistryEvent {
    RegistryEvent::Granted {
        token: FencingToken::new(7),
        permits: None,
        sent_at,
    }
}

pub(super) fn unavailable() -> StoreError {
    StoreError::Unavailable {
        reason: "down".to_owned(),
    }
}

pub(super) fn indeterminate() -> StoreError {
    StoreError::Indeterminate {
        reason: "lost".to_owned(),
    }
}

pub(super) fn config() -> Config {
    Config {
        id: SessionId::from_bytes([1; 16]),
        client_name: ClientName::parse("client").unwrap(),
        grace: GRACE,
        max_locks: 100,
        store_timeout: STORE_TIMEOUT,
        max_ttl: Duration::from_secs(60),
        tells_tickets: true,
        needs_replicas: false,
    }
}

/// An acquire of one name by nobody that waits for as long as it takes.
pub(super) fn acquire(text: &str) -> AcquireRequest {
    AcquireRequest {
        locks: LockSpecs::new(spec(text, Mode::Exclusive), Vec::new()),
        wait: Wait::Forever,
        value: Value::default(),
        lock_delay: Duration::ZERO,
        max_hold: None,
        actor: Actor::NOBODY,
        reentrant: false,
    }
}

pub(super) fn spec(text: &str, mode: Mode) -> LockSpec {
    LockSpec {
        name: name(text),
        mode,
    }
}

/// The same acquire, with all of its locks in this mode.
pub(super) fn in_mode(mode: Mode, acquire: AcquireRequest) -> AcquireRequest {
    let in_mode = |lock: &LockSpec| spec(lock.name.as_str(), mode);
    AcquireRequest {
        locks: acquire.locks.map(in_mode),
        ..acquire
    }
}

/// An acquire of somebody else.
pub(super) fn others(number: u8, wait: bool) -> Acquire {
    Acquire {
        owner: OwnerId::from_bytes([number; 16]),
        session: Some(SessionId::from_bytes(OTHER)),
        actor: Actor::NOBODY,
        client_name: ClientName::parse("other").unwrap(),
        mode: Mode::Exclusive,
        value: Value::default(),
        ttl: Duration::from_secs(3600),
        lock_delay: Duration::ZERO,
        max_hold: None,
        wait,
        again: false,
    }
}

/// The note of a renewal in time of so many holds.
pub(super) fn renewal_ended(renewed: usize, lost: usize, failed: usize) -> Note {
    Note::RenewalEnded {
        renewed,
        lost,
        failed,
        is_late: false,
    }
}

/// Draws owner ids: one after the other.
pub(super) fn fresh(owners: &mut u8) -> impl FnMut() -> OwnerId {
    || {
        *owners += 1;
        OwnerId::from_bytes([*owners; 16])
    }
}

/// Returns an answer in short.
pub(super) fn answer_in_short(response: &Response) -> &'static str {
    match response {
        Response::Opened(_) => "opened",
        Response::Queued { .. } => "queued",
        Response::Granted { .. } => "granted",
        Response::NotGranted { why, .. } => match why {
            NotGranted::Busy => "busy",
            NotGranted::TimedOut => "timed out",
            NotGranted::Cancelled => "cancelled",
        },
        Response::Lost(_) => "lost",
        Response::Heartbeat { .. } => "heartbeat",
        Response::Closed => "closed",
        _ => "other",
    }
}

/// Returns an operation in short.
pub(super) fn in_short(op: &Op) -> &'static str {
    match op {
        Op::Acquire(_) => "acquire",
        Op::Renew { .. } => "renew",
        Op::Release { .. } => "release",
        Op::SetValue { .. } => "set value",
        Op::SetCount { .. } => "set count",
        Op::Downgrade { .. } => "downgrade",
        Op::Reduce { .. } => "reduce",
        Op::Resume(_) => "resume",
        Op::View { .. } => "view",
        _ => "other",
    }
}
