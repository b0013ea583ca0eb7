//! Conversion of text to values and back. Errors say what was expected.

use std::{fmt, net::SocketAddr, ops::RangeInclusive, str::FromStr, time::Duration};

use leasehold_core::time::InUnits;

use super::{ClientAuth, LogFormat};

/// A display name: 1 to 128 bytes without control characters.
pub(super) fn display_name(text: &str) -> Result<String, String> {
    if text.is_empty() || text.len() > 128 || text.chars().any(char::is_control) {
        return Err("expected 1 to 128 bytes without control characters".to_owned());
    }
    Ok(text.to_owned())
}

/// A key prefix: up to 128 bytes without control characters, and not ours.
pub(super) fn key_prefix(text: &str) -> Result<String, String> {
    if text.len() > 128 || text.chars().any(char::is_control) {
        return Err("expected at most 128 bytes without control characters".to_owned());
    }
    if text.starts_with("lh:") {
        return Err("expected a prefix that does not begin with \"lh:\", where Leasehold keeps its own records".to_owned());
    }
    Ok(text.to_owned())
}

/// An address with a port.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        format!(
            "expected an IP address and a port, such as 127.0.0.1:7420 or [::1]:0; found {text:?}"
        )
    })
}

/// `true` or `false`.
pub(super) fn boolean(text: &str) -> Result<bool, String> {
    text.parse()
        .map_err(|_| format!("expected true or false; found {text:?}"))
}

/// A whole number within bounds.
pub(super) fn number<T>(text: &str, bounds: &RangeInclusive<T>) -> Result<T, String>
where
    T: FromStr + PartialOrd + fmt::Display,
{
    match text.parse() {
        Ok(number) if bounds.contains(&number) => Ok(number),
        _ => Err(format!(
            "expected a whole number from {} to {}; found {text:?}",
            bounds.start(),
            bounds.end()
        )),
    }
}

/// A duration with its unit, within bounds.
pub(super) fn duration(text: &str, bounds: &RangeInclusive<Duration>) -> Result<Duration, String> {
    match humantime::parse_duration(text.trim()) {
        Ok(duration) if bounds.contains(&duration) => Ok(duration),
        _ => {
            let is_negative = text.trim().starts_with('-');
            let hint = match text.trim().parse::<f64>() {
                _ if is_negative => ": it can't be negative",
                Ok(_) => ": a number alone has no unit",
                Err(_) => "",
            };
            Err(format!(
                "expected a duration from {} to {} with its unit, such as \"10s\", \"500ms\" or \"1h\"; found {text:?}{hint}",
                show_duration(*bounds.start()),
                show_duration(*bounds.end())
            ))
        }
    }
}

/// A duration in the largest unit that needs no fraction; [`duration`] reads it back.
pub(super) fn show_duration(duration: Duration) -> String {
    InUnits(duration).to_string()
}

/// Directives of an `EnvFilter`.
pub(super) fn log_filter(text: &str) -> Result<String, String> {
    match tracing_subscriber::EnvFilter::try_new(text) {
        Ok(_) if !text.trim().is_empty() => Ok(text.to_owned()),
        Ok(_) => Err("expected a level (error, warn, info, debug, trace, off) or directives such as \"info,leasehold_server=debug\"".to_owned()),
        Err(error) => Err(format!(
            "expected a level (error, warn, info, debug, trace, off) or directives such as \"info,leasehold_server=debug\"; {error}"
        )),
    }
}

/// The URL of a collector of traces.
pub(super) fn endpoint(text: &str) -> Result<String, String> {
    // Without what was found: there may be a password in it.
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

/// `human` or `json`.
pub(super) fn log_format(text: &str) -> Result<LogFormat, String> {
    match text {
        "human" => Ok(LogFormat::Human),
        "json" => Ok(LogFormat::Json),
        _ => Err(format!("expected \"human\" or \"json\"; found {text:?}")),
    }
}

/// `none`, `optional` or `required`.
pub(super) fn client_auth(text: &str) -> Result<ClientAuth, String> {
    match text {
        "none" => Ok(ClientAuth::None),
        "optional" => Ok(ClientAuth::Optional),
        "required" => Ok(ClientAuth::Required),
        _ => Err(format!(
            "expected \"none\", \"optional\" or \"required\"; found {text:?}"
        )),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn durations_read_back_as_shown() {
        let bounds = Duration::ZERO..=Duration::MAX;
        for millis in [
            1, 10, 999, 1000, 1500, 60_000, 90_000, 3_600_000, 86_400_000, 5_400_000,
        ] {
            let given = Duration::from_millis(millis);
            assert_eq!(duration(&show_duration(given), &bounds).unwrap(), given);
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
        let bounds = Duration::from_millis(10)..=Duration::from_secs(60);
        for text in ["10", "0", "1.5"] {
            let error = duration(text, &bounds).unwrap_err();
            assert!(error.contains("from 10ms to 1m"), "{error}");
            assert!(error.contains("no unit"), "{error}");
        }
        for text in ["-5s", " -5", "-1h"] {
            let error = duration(text, &bounds).unwrap_err();
            assert!(error.ends_with("it can't be negative"), "{error}");
        }
        for text in ["", "s", "-1s", "10 parsecs", "0s", "9ms", "61s", "10s10"] {
            assert!(duration(text, &bounds).is_err(), "{text}");
        }
        assert_eq!(
            duration("1s 500ms", &bounds).unwrap(),
            Duration::from_millis(1500)
        );
    }
}
