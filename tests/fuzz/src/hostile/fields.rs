//! Fields of the requests of hostile clients: mostly good ones, and now and then one out of bounds.

use arbitrary::Unstructured;
use leasehold_proto::v1::{LockSpec, SessionAcquire, SessionRequest, session_request::Request};

use crate::world::NAMES;

pub(super) fn message(request_id: u64, request: Request) -> SessionRequest {
    SessionRequest {
        request_id,
        request: Some(request),
        ..SessionRequest::default()
    }
}

pub(super) fn acquire(u: &mut Unstructured<'_>) -> arbitrary::Result<SessionAcquire> {
    let mut acquire = SessionAcquire {
        mode: mode(u)?,
        wait: wait(u)?,
        actor: u.int_in_range(0..=2)?,
        reentrant: u.arbitrary()?,
        ..SessionAcquire::default()
    };
    if acquire.mode == 3 || u.ratio(1, 16)? {
        acquire.permits = *u.choose(&[1, 2, 3, 0, u32::MAX])?;
        acquire.limit = *u.choose(&[3, 2, 1, 0, u32::MAX])?;
        acquire.limit_revision = *u.choose(&[0, 0, 1, 2, u32::MAX])?;
        acquire.permits_at_least = *u.choose(&[0, 0, 1, 2, u32::MAX])?;
    }
    match u.int_in_range(0..=7)? {
        0 => acquire.names = vec![name(u)?, name(u)?],
        1 => {
            for _ in 0..u.int_in_range(0..=3)? {
                acquire.locks.push(LockSpec {
                    name: name(u)?,
                    mode: mode(u)?,
                    permits: *u.choose(&[0, 1, 2])?,
                    limit: *u.choose(&[0, 3, 2])?,
                    ..LockSpec::default()
                });
            }
        }
        _ => acquire.name = name(u)?,
    }
    if u.ratio(1, 8)? {
        acquire.max_hold = Some(millis(*u.choose(&[
            1_000,
            1_500,
            4_000,
            0,
            -1,
            i64::MAX / 1_000,
        ])?));
    }
    if u.ratio(1, 8)? {
        acquire.lock_delay = Some(millis(*u.choose(&[100, 1_000, 5_000, 0, -1])?));
    }
    if u.ratio(1, 8)? {
        acquire.value = vec![0; *u.choose(&[1, 4_096, 4_097])?];
    }
    Ok(acquire)
}

fn mode(u: &mut Unstructured<'_>) -> arbitrary::Result<i32> {
    Ok(*u.choose(&[0, 1, 2, 3, 2, 3, 1, 9])?)
}

pub(super) fn wait(u: &mut Unstructured<'_>) -> arbitrary::Result<Option<prost_types::Duration>> {
    let wait = *u.choose(&[i64::MIN, i64::MIN, 0, 100, 1_500, 10_000, -1])?;
    Ok((wait != i64::MIN).then(|| millis(wait)))
}

/// Returns one of the names of the world, or rarely one that no lock can have.
pub(super) fn name(u: &mut Unstructured<'_>) -> arbitrary::Result<String> {
    text(u, &NAMES)
}

pub(super) fn text(u: &mut Unstructured<'_>, good: &[&str]) -> arbitrary::Result<String> {
    if u.ratio(1, 24)? {
        return Ok((*u.choose(&["", "\u{7}", "\u{0}"])?).to_owned());
    }
    Ok((*u.choose(good)?).to_owned())
}

pub(super) fn millis(millis: i64) -> prost_types::Duration {
    prost_types::Duration {
        seconds: millis / 1_000,
        nanos: i32::try_from(millis % 1_000).unwrap_or_default() * 1_000_000,
    }
}
