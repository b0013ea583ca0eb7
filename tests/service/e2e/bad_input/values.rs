//! Values out of bounds.

use leasehold_proto::v1::{AcquireRequest, LockMode};
use leasehold_tests::raw::speaks_json;

/// Names that are refused.
pub(crate) fn bad_names() -> Vec<(&'static str, String)> {
    vec![
        ("an empty name", String::new()),
        ("a name of 513 bytes", "n".repeat(513)),
        ("a name of 513 bytes in 171 characters", "€".repeat(171)),
        ("a name of 1 MiB", "n".repeat(1 << 20)),
        ("a name with a newline", "two\nlines".to_owned()),
        ("a name with NUL", "a\0b".to_owned()),
        ("a name with DEL", "a\u{7f}b".to_owned()),
        ("a name with a C1 control", "a\u{85}b".to_owned()),
    ]
}

/// Returns a duration as a client may write it, sensible or not.
pub(super) fn seconds(seconds: i64, nanos: i32) -> Option<prost_types::Duration> {
    Some(prost_types::Duration { seconds, nanos })
}

/// Returns whether a call can say this duration: in JSON, one has no more nanoseconds than a second has, and has no more than ten
/// thousand years. `connect hostile` sends texts there that are no durations.
fn can_be_said(duration: prost_types::Duration) -> bool {
    let is_in_range = duration.nanos.unsigned_abs() < 1_000_000_000
        && (-315_576_000_000..=315_576_000_000).contains(&duration.seconds);
    let are_signs_alike = duration.seconds.signum() * i64::from(duration.nanos.signum()) >= 0;
    !speaks_json() || is_in_range && are_signs_alike
}

/// Returns TTLs that are refused.
pub(crate) fn bad_ttls() -> Vec<(&'static str, Option<prost_types::Duration>)> {
    let mut ttls = vec![
        ("a TTL of zero", seconds(0, 0)),
        ("a TTL just too short", seconds(0, 999_999_999)),
        ("a negative TTL", seconds(-1, 0)),
        ("a TTL with the signs mixed", seconds(10, -1)),
        ("a TTL with too many nanoseconds", seconds(10, i32::MAX)),
        ("a TTL just too long", seconds(3_600, 1)),
        ("a huge TTL", seconds(i64::MAX, 999_999_999)),
        ("the smallest TTL there is", seconds(i64::MIN, i32::MIN)),
    ];
    ttls.retain(|(_, ttl)| ttl.is_none_or(can_be_said));
    ttls
}

/// Acquires that are refused, and which field is to blame.
pub(super) fn bad_acquires() -> Vec<(&'static str, &'static str, AcquireRequest)> {
    let good = AcquireRequest {
        name: "good".to_owned(),
        ..AcquireRequest::default()
    };
    let mut bad = Vec::new();
    for (what, name) in bad_names() {
        bad.push((
            what,
            "name",
            AcquireRequest {
                name,
                ..good.clone()
            },
        ));
    }
    for (what, ttl) in bad_ttls() {
        bad.push((
            what,
            "ttl",
            AcquireRequest {
                ttl,
                ..good.clone()
            },
        ));
    }
    let waits = [
        ("a negative wait", seconds(0, -1)),
        ("a huge wait", seconds(86_401, 0)),
    ];
    for (what, wait) in waits {
        bad.push((
            what,
            "wait",
            AcquireRequest {
                wait,
                ..good.clone()
            },
        ));
    }
    let delays = [
        ("a negative delay", seconds(-1, 0)),
        ("a huge delay", seconds(3_601, 0)),
    ];
    for (what, lock_delay) in delays {
        bad.push((
            what,
            "lock_delay",
            AcquireRequest {
                lock_delay,
                ..good.clone()
            },
        ));
    }
    for (what, size) in [
        ("a value of 4097 bytes", 4_097),
        ("a value of 1 MiB", 1 << 20),
    ] {
        let value = vec![7; size];
        bad.push((
            what,
            "value",
            AcquireRequest {
                value,
                ..good.clone()
            },
        ));
    }
    for (what, client_name) in [
        ("a client name of 257 bytes", "c".repeat(257)),
        ("a client name with a control character", "a\tb".to_owned()),
    ] {
        bad.push((
            what,
            "client_name",
            AcquireRequest {
                client_name,
                ..good.clone()
            },
        ));
    }
    bad.push((
        "a mode that is not known",
        "mode",
        AcquireRequest {
            mode: 77,
            ..good.clone()
        },
    ));
    bad.push((
        "a revision of a shared lock",
        "limit_revision",
        AcquireRequest {
            mode: LockMode::Shared.into(),
            limit_revision: 1,
            ..good.clone()
        },
    ));
    for (what, mode, permits, permits_at_least) in [
        ("fewest permits of a shared lock", LockMode::Shared, 0, 1),
        (
            "fewest permits of an exclusive lock",
            LockMode::Exclusive,
            0,
            1,
        ),
        (
            "more permits at least than at most",
            LockMode::Semaphore,
            2,
            3,
        ),
        (
            "more permits at least than the default",
            LockMode::Semaphore,
            0,
            2,
        ),
        (
            "as many at least as a number can say",
            LockMode::Semaphore,
            3,
            u32::MAX,
        ),
    ] {
        let request = AcquireRequest {
            mode: mode.into(),
            permits,
            limit: if mode == LockMode::Semaphore { 3 } else { 0 },
            permits_at_least,
            ..good.clone()
        };
        bad.push((what, "permits_at_least", request));
    }
    for (what, field, mode, permits, limit) in bad_permits() {
        let request = AcquireRequest {
            mode: mode.into(),
            permits,
            limit,
            ..good.clone()
        };
        bad.push((what, field, request));
    }
    bad
}

/// Modes with permits and limits that do not go together, and which field is to blame.
fn bad_permits() -> [(&'static str, &'static str, LockMode, u32, u32); 10] {
    use LockMode::{Exclusive, Semaphore, Shared, Unspecified};
    [
        ("permits of no semaphore", "permits", Unspecified, 1, 0),
        ("a limit of no semaphore", "limit", Unspecified, 0, 3),
        ("permits of an exclusive lock", "permits", Exclusive, 1, 0),
        ("a limit of an exclusive lock", "limit", Exclusive, 0, 1),
        ("permits of a shared lock", "permits", Shared, 1, 0),
        ("a limit of a shared lock", "limit", Shared, 0, 1),
        ("a semaphore without a limit", "limit", Semaphore, 1, 0),
        ("too large a limit", "limit", Semaphore, 1, 1_000_001),
        ("more permits than there are", "permits", Semaphore, 4, 3),
        (
            "as many permits as a number can say",
            "permits",
            Semaphore,
            u32::MAX,
            1_000_000,
        ),
    ]
}
