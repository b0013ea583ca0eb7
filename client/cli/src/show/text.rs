//! Single values as text.

use std::time::{Duration, SystemTime};

use leasehold_client::{FencingToken, Holder, LostReason, Waiter};

/// Returns the word for the reason of a loss.
pub(crate) fn loss(reason: LostReason) -> Option<&'static str> {
    Some(match reason {
        LostReason::Expired => "expired",
        LostReason::Deleted => "deleted",
        LostReason::Taken => "taken",
        LostReason::Forced => "forced",
        LostReason::SessionEnded => "session_ended",
        LostReason::PermissionRevoked => "permission_revoked",
        LostReason::Unauthenticated => "unauthenticated",
        LostReason::Resumed => "resumed",
        LostReason::MaxHold => "max_hold",
        _ => return None,
    })
}

/// Returns a duration in its two largest units.
pub(crate) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let two = |large: u64, unit: &str, small: u64, small_unit: &str| match small {
        0 => format!("{large}{unit}"),
        small => format!("{large}{unit} {small}{small_unit}"),
    };
    match seconds {
        0 if duration.subsec_millis() == 0 && !duration.is_zero() => "<1ms".to_owned(),
        0 => format!("{}ms", duration.subsec_millis()),
        1..=9 => format!("{:.1}s", duration.as_secs_f64()),
        10..=59 => format!("{seconds}s"),
        60..=3599 => two(seconds / 60, "m", seconds % 60, "s"),
        3600..=86_399 => two(seconds / 3600, "h", seconds % 3600 / 60, "m"),
        _ => two(seconds / 86_400, "d", seconds % 86_400 / 3600, "h"),
    }
}

/// Returns a duration in its two largest units, without a fraction that is zero.
pub(crate) fn short(of: Duration) -> String {
    duration(of).replace(".0s", "s")
}

/// Returns a duration, if there is one.
pub(crate) fn or_dash(of: Option<Duration>) -> String {
    of.map_or("-".into(), duration)
}

/// Returns a number, if there is one.
pub(crate) fn or_nothing(number: Option<impl ToString>) -> String {
    number.map_or_else(String::new, |number| number.to_string())
}

/// Returns the time since a wall-clock time; zero if clocks disagree.
pub(crate) fn age(since: Option<SystemTime>, now: SystemTime) -> Option<Duration> {
    Some(now.duration_since(since?).unwrap_or_default())
}

/// Returns a wall-clock time, to the millisecond.
pub(crate) fn time(time: Option<SystemTime>) -> String {
    let Some(time) = time else {
        return "-".into();
    };
    let time = prost_types::Timestamp::from(time);
    // Always with a fraction, so that all have the same length.
    let seconds = prost_types::Timestamp { nanos: 0, ..time }.to_string();
    let millis = time.nanos / 1_000_000;
    format!("{}.{millis:03}Z", seconds.trim_end_matches('Z'))
}

/// Returns a fencing token, if there is one.
pub(crate) fn token(token: Option<FencingToken>) -> String {
    token.map_or("-".into(), |token| token.to_string())
}

/// Makes foreign text harmless for a terminal: escapes control characters and invalid UTF-8.
pub(crate) fn escaped(bytes: impl AsRef<[u8]>) -> String {
    let mut text = String::new();
    for chunk in bytes.as_ref().utf8_chunks() {
        for c in chunk.valid().chars() {
            if c.is_control() {
                text.extend(c.escape_default());
            } else {
                text.push(c);
            }
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

/// Names a holder, in a word.
pub(crate) fn holder(holder: &Holder) -> String {
    if holder.foreign {
        "(not a Leasehold client)".to_owned()
    } else {
        client(&holder.client_name, &holder.session_id)
    }
}

/// Names a waiter, in a word.
pub(crate) fn waiter(waiter: &Waiter) -> String {
    client(&waiter.client_name, &waiter.session_id)
}

/// Names a client, in a word.
pub(crate) fn client(name: &str, session_id: &str) -> String {
    if !name.is_empty() {
        escaped(name)
    } else if !session_id.is_empty() {
        format!("session {}", escaped(session_id))
    } else {
        "(no session)".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_show_their_two_largest_units() {
        for (millis, text) in [
            (0, "0ms"),
            (250, "250ms"),
            (9_532, "9.5s"),
            (59_999, "59s"),
            (60_000, "1m"),
            (123_000, "2m 3s"),
            (3_840_000, "1h 4m"),
            (266_400_000, "3d 2h"),
        ] {
            assert_eq!(duration(Duration::from_millis(millis)), text);
        }
        // Not nothing.
        assert_eq!(duration(Duration::from_nanos(999_999)), "<1ms");
    }

    #[test]
    fn short_durations_have_no_fraction_of_zero() {
        for (millis, text) in [(2_000, "2s"), (2_500, "2.5s"), (62_000, "1m 2s")] {
            assert_eq!(short(Duration::from_millis(millis)), text);
        }
    }

    #[test]
    fn times_are_shown_to_the_millisecond() {
        for (nanos, text) in [
            (0, "1970-01-01T00:01:05.000Z"),
            (7_999_999, "1970-01-01T00:01:05.007Z"),
        ] {
            let at = SystemTime::UNIX_EPOCH + Duration::new(65, nanos);
            assert_eq!(time(Some(at)), text);
        }
        assert_eq!(time(None), "-");
    }

    #[test]
    fn characters_that_could_harm_a_terminal_are_escaped() {
        assert_eq!(escaped("Grüße".as_bytes()), "Grüße");
        assert_eq!(escaped(b"a\x1b[2Jb\n"), r"a\u{1b}[2Jb\n");
        assert_eq!(escaped(b"ok\xff\xfe"), r"ok\xff\xfe");
    }
}
