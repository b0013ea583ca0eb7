//! Readers of values from text, whose errors name the expected form.

use std::{fmt, net::SocketAddr, path::PathBuf, str::FromStr, time::Duration};

use clap::ValueEnum;
use leasehold_core::time::InUnits;

use super::Origins;

/// Reads a display name: 1 to 128 bytes without control characters.
pub(super) fn display_name(text: &str) -> Result<String, String> {
    if text.is_empty() || text.len() > 128 || text.chars().any(char::is_control) {
        return Err("expected 1 to 128 bytes without control characters".to_owned());
    }
    Ok(text.to_owned())
}

/// Reads a key prefix: at most 128 bytes without control characters, and not Leasehold's own.
pub(super) fn key_prefix(text: &str) -> Result<String, String> {
    if text.len() > 128 || text.chars().any(char::is_control) {
        return Err("expected at most 128 bytes without control characters".to_owned());
    }
    if text.starts_with("lh:") {
        return Err("expected a prefix that does not begin with \"lh:\", where Leasehold keeps its own records".to_owned());
    }
    Ok(text.to_owned())
}

/// Reads an address with a port.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        format!(
            "expected an IP address and a port, such as 127.0.0.1:7420 or [::1]:0; found {text:?}"
        )
    })
}

/// Reads `true` or `false`.
pub(super) fn boolean(text: &str) -> Result<bool, String> {
    text.parse()
        .map_err(|_| format!("expected true or false; found {text:?}"))
}

/// Returns a reader of whole numbers within bounds.
pub(super) fn number<T>(min: T, max: T) -> impl Fn(&str) -> Result<T, String>
where
    T: FromStr + PartialOrd + fmt::Display,
{
    move |text| match text.parse() {
        Ok(number) if min <= number && number <= max => Ok(number),
        _ => Err(format!(
            "expected a whole number from {min} to {max}; found {text:?}"
        )),
    }
}

/// Returns a reader of durations with their unit, within bounds.
pub(super) fn duration(min: Duration, max: Duration) -> impl Fn(&str) -> Result<Duration, String> {
    move |text| {
        let text = text.trim();
        match humantime::parse_duration(text) {
            Ok(duration) if (min..=max).contains(&duration) => Ok(duration),
            _ => {
                let hint = if text.starts_with('-') {
                    ": it can't be negative"
                } else if text.parse::<f64>().is_ok() {
                    ": a number alone has no unit"
                } else {
                    ""
                };
                Err(format!(
                    "expected a duration from {} to {} with its unit, such as \"10s\", \"500ms\" or \"1h\"; found {text:?}{hint}",
                    show_duration(min),
                    show_duration(max)
                ))
            }
        }
    }
}

/// Returns a duration in the largest unit that needs no fraction, as [`duration`] reads it.
pub(super) fn show_duration(duration: Duration) -> String {
    InUnits(duration).to_string()
}

/// The crates of the coordinator, whose names begin the targets of its log.
const LOGGED: [&str; 4] = [
    "leasehold",
    "leasehold_core",
    "leasehold_server",
    "leasehold_store",
];

/// Reads directives of an `EnvFilter`. A word that is no level would be taken for a target, and silence everything else.
pub(super) fn log_filter(text: &str) -> Result<String, String> {
    let wrong = |found: &str| {
        format!(
            "expected a level (error, warn, info, debug, trace, off) or directives such as \"info,leasehold_server=debug\"; {found}"
        )
    };
    if text.trim().is_empty() {
        return Err(wrong("found none"));
    }
    for directive in text.split(',').map(str::trim) {
        let (target, level) = match directive.split_once('=') {
            Some((target, level)) if !directive.contains('[') => (Some(target), level),
            Some(_) => continue,
            None => (None, directive),
        };
        if level
            .parse::<tracing::level_filters::LevelFilter>()
            .is_err()
        {
            return Err(wrong(&format!("{level:?} is no level")));
        }
        let module = target.and_then(|target| target.split("::").next());
        if let Some(module) = module
            && (module.contains(char::is_whitespace)
                || module.starts_with("leasehold") && !LOGGED.contains(&module))
        {
            return Err(wrong(&format!("nothing here logs as {module:?}")));
        }
    }
    match tracing_subscriber::EnvFilter::try_new(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(wrong(&error.to_string())),
    }
}

/// Reads the URL of a collector of traces.
pub(super) fn endpoint(text: &str) -> Result<String, String> {
    // The error omits the text, which may contain a password.
    const EXPECTED: &str =
        "expected http://HOST:PORT or https://HOST:PORT, without user, password or path";
    let url = url::Url::parse(text).map_err(|_| EXPECTED)?;
    let is_plain = matches!(url.scheme(), "http" | "https")
        && url.username().is_empty()
        && url.password().is_none()
        && url.path() == "/"
        && url.query().is_none()
        && url.fragment().is_none();
    if url.host().is_none() || !is_plain {
        return Err(EXPECTED.to_owned());
    }
    Ok(text.to_owned())
}

/// Reads a list of origins that does not stand for all.
pub(super) fn some_origins(text: &str) -> Result<Origins, String> {
    let origins: Origins = text.parse()?;
    if origins.listed().is_empty() {
        return Err(
            "expected addresses such as https://locks.example:7420, separated by commas; found *"
                .to_owned(),
        );
    }
    Ok(origins)
}

/// Reads a text that is not empty.
pub(super) fn not_empty(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("expected a value that is not empty".to_owned());
    }
    Ok(text.to_owned())
}

/// Returns a reader of the path of a file that holds something.
pub(super) fn file(holds: &str) -> impl Fn(&str) -> Result<Option<PathBuf>, String> {
    move |text| match text {
        "" => Err(format!("expected the path of a file with {holds}")),
        path => Ok(Some(PathBuf::from(path))),
    }
}

/// Reads one of several names.
pub(super) fn choice<T: ValueEnum>(text: &str) -> Result<T, String> {
    T::from_str(text, false).map_err(|_| {
        let names = T::value_variants().iter().map(show_choice);
        let names: Vec<_> = names.map(|name| format!("{name:?}")).collect();
        let (last, others) = names.split_last().unzip();
        let others = others.unwrap_or_default().join(", ");
        format!(
            "expected {others} or {}; found {text:?}",
            last.map_or("", String::as_str)
        )
    })
}

/// Returns the name that [`choice`] reads.
pub(super) fn show_choice<T: ValueEnum>(choice: &T) -> String {
    let value = choice.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

/// Returns a reader of a setting that may have no value.
pub(super) fn optional<T>(
    read: impl Fn(&str) -> Result<T, String>,
) -> impl Fn(&str) -> Result<Option<T>, String> {
    move |text| read(text).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_origins_are_not_all() {
        let listed = some_origins("https://a.example:7420,http://localhost").unwrap();
        assert_eq!(
            listed.listed(),
            ["https://a.example:7420", "http://localhost"]
        );
        assert!(some_origins("*").unwrap_err().ends_with("found *"));
    }

    #[test]
    fn durations_read_back_as_shown() {
        let read = duration(Duration::ZERO, Duration::MAX);
        for millis in [
            1, 10, 999, 1000, 1500, 60_000, 90_000, 3_600_000, 86_400_000, 5_400_000,
        ] {
            let given = Duration::from_millis(millis);
            assert_eq!(read(&show_duration(given)).unwrap(), given);
        }
        for (shown, text) in [
            (Duration::from_secs(10), "10s"),
            (Duration::from_secs(86_400), "24h"),
            (Duration::from_secs(2 * 86_400), "2d"),
            (Duration::from_secs(365 * 86_400), "365d"),
            (Duration::from_secs(25 * 3_600), "25h"),
            (Duration::from_millis(1500), "1500ms"),
            (Duration::from_secs(90), "90s"),
            (Duration::from_nanos(7), "7ns"),
            (Duration::ZERO, "0ns"),
        ] {
            assert_eq!(show_duration(shown), text);
        }
    }

    #[test]
    fn plain_numbers_are_no_durations() {
        let read = duration(Duration::from_millis(10), Duration::from_secs(60));
        for text in ["10", "0", "1.5"] {
            let error = read(text).unwrap_err();
            assert!(error.contains("from 10ms to 1m"), "{error}");
            assert!(error.contains("no unit"), "{error}");
        }
        for text in ["-5s", " -5", "-1h"] {
            let error = read(text).unwrap_err();
            assert!(error.ends_with("it can't be negative"), "{error}");
        }
        for text in ["", "s", "-1s", "10 parsecs", "0s", "9ms", "61s", "10s10"] {
            assert!(read(text).is_err(), "{text}");
        }
        assert_eq!(read("1s 500ms").unwrap(), Duration::from_millis(1500));
    }
}
