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

/// Lengths of values that are refused.
pub(crate) const BAD_VALUES: [(&str, usize); 2] = [
    ("a value of 4097 bytes", 4_097),
    ("a value of 1 MiB", 1 << 20),
];

/// Returns names of clients that are refused.
pub(crate) fn bad_client_names() -> [(&'static str, String); 2] {
    [
        ("a client name of 257 bytes", "c".repeat(257)),
        ("a client name with a control character", "a\tb".to_owned()),
    ]
}

/// Modes with permits and limits that do not go together, and which field is to blame.
const BAD_PERMITS: [(&str, &str, LockMode, u32, u32); 10] = {
    use LockMode::{Exclusive, Semaphore, Shared, Unspecified};
    const MANY: u32 = 1_000_000;
    [
        ("permits of no semaphore", "permits", Unspecified, 1, 0),
        ("a limit of no semaphore", "limit", Unspecified, 0, 3),
        ("permits of an exclusive lock", "permits", Exclusive, 1, 0),
        ("a limit of an exclusive lock", "limit", Exclusive, 0, 1),
        ("permits of a shared lock", "permits", Shared, 1, 0),
        ("a limit of a shared lock", "limit", Shared, 0, 1),
        ("a semaphore without a limit", "limit", Semaphore, 1, 0),
        ("too large a limit", "limit", Semaphore, 1, MANY + 1),
        ("more permits than there are", "permits", Semaphore, 4, 3),
        ("the most permits", "permits", Semaphore, u32::MAX, MANY),
    ]
};

/// Fewest permits that do not go with the mode, the permits and the limit.
const BAD_FEWEST_PERMITS: [(&str, LockMode, [u32; 3]); 5] = {
    use LockMode::{Exclusive, Semaphore, Shared};
    [
        ("fewest permits of a shared lock", Shared, [0, 0, 1]),
        ("fewest permits of an exclusive lock", Exclusive, [0, 0, 1]),
        ("more at least than at most", Semaphore, [2, 3, 3]),
        ("more at least than the default", Semaphore, [0, 3, 2]),
        ("the most at least", Semaphore, [3, 3, u32::MAX]),
    ]
};

/// Returns acquires that are refused, and which field is to blame.
pub(super) fn bad_acquires() -> Vec<(&'static str, &'static str, AcquireRequest)> {
    let mut bad = Vec::new();
    let mut add = |what, field, spoil: &dyn Fn(&mut AcquireRequest)| {
        let mut request = AcquireRequest {
            name: "good".to_owned(),
            ..AcquireRequest::default()
        };
        spoil(&mut request);
        bad.push((what, field, request));
    };
    for (what, name) in bad_names() {
        add(what, "name", &|it| it.name.clone_from(&name));
    }
    for (what, ttl) in bad_ttls() {
        add(what, "ttl", &|it| it.ttl = ttl);
    }
    add("a negative wait", "wait", &|it| it.wait = seconds(0, -1));
    add("a huge wait", "wait", &|it| it.wait = seconds(86_401, 0));
    for (what, delay) in [("a negative delay", -1), ("a huge delay", 3_601)] {
        add(what, "lock_delay", &|it| it.lock_delay = seconds(delay, 0));
    }
    for (what, length) in BAD_VALUES {
        add(what, "value", &|it| it.value = vec![7; length]);
    }
    for (what, name) in bad_client_names() {
        add(what, "client_name", &|it| it.client_name.clone_from(&name));
    }
    for (what, length) in [("15 bytes", 15), ("129 bytes", 129)] {
        add(what, "request_key", &|it| {
            it.request_key = "k".repeat(length)
        });
    }
    add("an unknown mode", "mode", &|it| it.mode = 77);
    add("a revision of a shared lock", "limit_revision", &|it| {
        it.set_mode(LockMode::Shared);
        it.limit_revision = 1;
    });
    for (what, mode, [permits, limit, at_least]) in BAD_FEWEST_PERMITS {
        add(what, "permits_at_least", &|it| {
            it.set_mode(mode);
            (it.permits, it.limit, it.permits_at_least) = (permits, limit, at_least);
        });
    }
    for (what, field, mode, permits, limit) in BAD_PERMITS {
        add(what, field, &|it| {
            it.set_mode(mode);
            (it.permits, it.limit) = (permits, limit);
        });
    }
    bad
}
