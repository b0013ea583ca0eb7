//! Headers and trailers: those that belong to a protocol, and the metadata that passes through.

use std::{collections::BTreeMap, time::Duration};

use tonic::codegen::http::{HeaderMap, HeaderName, HeaderValue, header};

/// Prefix of trailing metadata in the headers of a unary answer.
const TRAILER: &str = "trailer-";
/// Most digits of a time-out in gRPC.
const MOST_DIGITS: usize = 8;
/// Largest number with so many.
const MOST: u128 = 99_999_999;

/// Headers that belong to the request of one protocol, or to one connection.
const OF_REQUEST: [HeaderName; 10] = [
    header::ACCEPT_ENCODING,
    header::CONNECTION,
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::EXPECT,
    header::HOST,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Makes the headers of a Connect request those of a gRPC request.
pub(super) fn to_grpc(headers: &mut HeaderMap, timeout: Option<Duration>) {
    for name in &OF_REQUEST {
        headers.remove(name);
    }
    let reserved = headers
        .keys()
        .filter(|name| name.as_str().starts_with("connect-") || is_of_grpc(name))
        .cloned();
    for name in reserved.collect::<Vec<_>>() {
        headers.remove(name);
    }
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/grpc"),
    );
    headers.insert(header::TE, HeaderValue::from_static("trailers"));
    if let Some(timeout) = timeout.and_then(grpc_timeout) {
        headers.insert("grpc-timeout", timeout);
    }
}

/// Returns a time-out as gRPC writes it: at most eight digits and a unit.
fn grpc_timeout(timeout: Duration) -> Option<HeaderValue> {
    let millis = timeout.as_millis();
    let text = if millis <= MOST {
        format!("{millis}m")
    } else {
        format!("{}S", timeout.as_secs())
    };
    HeaderValue::from_str(&text).ok()
}

/// Returns the time-out of a gRPC request, if it has one that can be read.
pub fn timeout_of_grpc(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get("grpc-timeout")?.as_bytes();
    let (unit, digits) = value.split_last()?;
    if digits.len() > MOST_DIGITS {
        return None;
    }
    let number: u64 = str::from_utf8(digits).ok()?.parse().ok()?;
    Some(match unit {
        b'H' => Duration::from_secs(number * 60 * 60),
        b'M' => Duration::from_secs(number * 60),
        b'S' => Duration::from_secs(number),
        b'm' => Duration::from_millis(number),
        b'u' => Duration::from_micros(number),
        b'n' => Duration::from_nanos(number),
        _ => return None,
    })
}

/// Returns the metadata among the headers or the trailers of a gRPC answer.
pub(super) fn of_answer(headers: &HeaderMap) -> impl Iterator<Item = (&HeaderName, &HeaderValue)> {
    headers.iter().filter(|(name, _)| {
        let is_of_http = [header::CONTENT_TYPE, header::CONTENT_LENGTH].contains(name);
        !is_of_http && !is_of_grpc(name)
    })
}

fn is_of_grpc(name: &HeaderName) -> bool {
    name.as_str().starts_with("grpc-")
}

/// Adds metadata to the headers of an answer.
pub(super) fn lead(headers: &mut HeaderMap, metadata: &HeaderMap) {
    for (name, value) in of_answer(metadata) {
        headers.append(name.clone(), value.clone());
    }
}

/// Adds trailing metadata to the headers of a unary answer.
pub(super) fn trail(headers: &mut HeaderMap, metadata: &HeaderMap) {
    for (name, value) in of_answer(metadata) {
        let name = HeaderName::try_from(format!("{TRAILER}{name}"));
        // A name with a prefix of letters is still a name.
        if let Ok(name) = name {
            headers.append(name, value.clone());
        }
    }
}

/// Returns trailing metadata as the end of a stream has it.
pub(super) fn by_name(metadata: &HeaderMap) -> BTreeMap<&str, Vec<String>> {
    let mut found: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (name, value) in of_answer(metadata) {
        let text = String::from_utf8_lossy(value.as_bytes()).into_owned();
        found.entry(name.as_str()).or_default().push(text);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(entries: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in entries {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    fn shown(headers: &HeaderMap) -> Vec<String> {
        let lines = headers.iter();
        let lines = lines.map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()));
        let mut lines: Vec<_> = lines.collect();
        lines.sort();
        lines
    }

    #[test]
    fn a_requests_metadata_passes_and_its_protocol_does_not() {
        let mut request = headers(&[
            ("content-type", "application/json"),
            ("content-length", "2"),
            ("content-encoding", "gzip"),
            ("accept-encoding", "gzip"),
            ("connect-protocol-version", "1"),
            ("connect-timeout-ms", "9"),
            ("grpc-timeout", "1H"),
            ("grpc-encoding", "gzip"),
            ("host", "h"),
            ("authorization", "Bearer t"),
            ("x-trace-bin", "AAE"),
        ]);
        to_grpc(&mut request, Some(Duration::from_millis(1500)));
        let expected = [
            "authorization: Bearer t",
            "content-type: application/grpc",
            "grpc-timeout: 1500m",
            "te: trailers",
            "x-trace-bin: AAE",
        ];
        assert_eq!(shown(&request), expected);
    }

    #[test]
    fn time_outs_have_eight_digits() {
        for (millis, expected) in [
            (0, "0m"),
            (99_999_999, "99999999m"),
            (100_000_000, "100000S"),
            (9_999_999_999, "9999999S"),
        ] {
            let timeout = grpc_timeout(Duration::from_millis(millis)).unwrap();
            assert_eq!(timeout, expected);
        }
    }

    #[test]
    fn an_answers_metadata_leads_and_trails() {
        let metadata = headers(&[
            ("content-type", "application/grpc"),
            ("grpc-status", "0"),
            ("grpc-message", ""),
            ("a", "1"),
            ("a", "2"),
            ("b-bin", "AAE"),
        ]);
        let mut answer = headers(&[]);
        lead(&mut answer, &metadata);
        trail(&mut answer, &metadata);
        let leads = ["a: 1", "a: 2", "b-bin: AAE"];
        let trails = ["trailer-a: 1", "trailer-a: 2", "trailer-b-bin: AAE"];
        assert_eq!(shown(&answer), [leads, trails].concat());
        let json = serde_json::to_string(&by_name(&metadata)).unwrap();
        assert_eq!(json, r#"{"a":["1","2"],"b-bin":["AAE"]}"#);
    }

    #[test]
    fn time_outs_of_grpc_are_digits_and_a_unit() {
        let read = |value| timeout_of_grpc(&headers(&[("grpc-timeout", value)]));
        assert_eq!(timeout_of_grpc(&HeaderMap::new()), None);
        assert_eq!(read("2H"), Some(Duration::from_secs(7200)));
        assert_eq!(read("2M"), Some(Duration::from_secs(120)));
        assert_eq!(read("99999999S"), Some(Duration::from_secs(99_999_999)));
        assert_eq!(read("0m"), Some(Duration::ZERO));
        assert_eq!(read("7m"), Some(Duration::from_millis(7)));
        assert_eq!(read("7u"), Some(Duration::from_micros(7)));
        assert_eq!(read("7n"), Some(Duration::from_nanos(7)));
        for wrong in ["", "7", "S", "-1S", "1.5S", "7s", "100000000S"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
