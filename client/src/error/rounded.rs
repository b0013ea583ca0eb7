//! Durations in errors, rounded for people.

use std::{fmt, time::Duration};

/// Shows a duration to a tenth of a second, or to the millisecond below one second.
pub(crate) struct Rounded(pub(crate) Duration);

impl fmt::Display for Rounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_nanos().div_ceil(1_000_000);
        let tenths = (millis + 50) / 100;
        match tenths {
            0..10 => write!(f, "{millis}ms"),
            10..600 if tenths.is_multiple_of(10) => write!(f, "{}s", tenths / 10),
            10..600 => write!(f, "{}.{}s", tenths / 10, tenths % 10),
            _ => {
                let seconds = (tenths + 5) / 10;
                let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
                let parts = [(hours, "h"), (minutes, "m"), (seconds, "s")];
                let parts = parts.iter().filter(|(number, _)| *number > 0);
                let parts: Vec<_> = parts
                    .map(|(number, unit)| format!("{number}{unit}"))
                    .collect();
                f.write_str(&parts.join(" "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_rounded() {
        for (nanos, text) in [
            (0, "0ms"),
            (1, "1ms"),
            (250_000_000, "250ms"),
            (949_000_000, "949ms"),
            (999_999_999, "1s"),
            (1_500_000_000, "1.5s"),
            (5_001_265_938, "5s"),
            (59_999_000_000, "1m"),
            (125_000_000_000, "2m 5s"),
            (3_600_000_000_000, "1h"),
        ] {
            let shown = Rounded(Duration::from_nanos(nanos)).to_string();
            assert_eq!(shown, text, "{nanos}");
        }
    }
}
