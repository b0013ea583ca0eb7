//! Durations on the command line.

use std::time::Duration;

/// Parses a duration: a number with `ms`, `s`, `m`, `h` or `d`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    const EXPECTED: &str = "expected a number with ms, s, m, h or d, such as 1.5s or 2m";
    if text
        .strip_prefix('-')
        .is_some_and(|rest| duration(rest).is_ok())
    {
        return Err(format!("a duration can't be negative: {EXPECTED}"));
    }
    let unit_at = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let explain = || EXPECTED.to_owned();
    let number: f64 = number.parse().map_err(|_| explain())?;
    let seconds = match unit {
        "ms" => number / 1000.0,
        "s" => number,
        "m" => number * 60.0,
        "h" => number * 3600.0,
        "d" => number * 86_400.0,
        "" if number == 0.0 => 0.0,
        _ => return Err(explain()),
    };
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, millis) in [
            ("250ms", 250),
            ("1.5s", 1_500),
            ("2m", 120_000),
            ("1h", 3_600_000),
            ("365d", 31_536_000_000),
            ("0", 0),
            ("0s", 0),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in [
            "",
            "5",
            "s",
            "-1s",
            "--1s",
            "1w",
            "1 s",
            "1..2s",
            "infs",
            "9999999999999999999999h",
        ] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
