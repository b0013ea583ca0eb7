//! Warnings about the figures, such as a busy client machine. States only what is certain.

use super::summary::{Summary, micros, time};

/// Share of the processors from which on this process may limit the rate.
const BUSY: f64 = 0.8;
/// Number of cycles below which the 99.9th percentile is the maximum.
const FEW: u64 = 1_000;

/// Returns the warnings that a reader of the figures needs.
pub(super) fn of(summary: &Summary<'_>) -> Vec<String> {
    let mut hints = Vec::new();
    let mut hint = |text: String| hints.push(text);
    if cfg!(debug_assertions) {
        hint("this tool was built without optimisation, which makes every figure worse".into());
    }
    let (used, cores) = (summary.cores_used(), summary.cores);
    if used >= BUSY * cores as f64 {
        hint(format!(
            "this process used {used:.1} of {cores} processors: it may limit the rate, not the coordinator"
        ));
    }
    if summary.run.endpoint.split(',').any(is_loopback) {
        hint(
            "the endpoint is on loopback: a local coordinator shares the processors with this process, and the figures \
             include a tunnel"
                .into(),
        );
    }
    if summary.run.coordinators.len() > 1 {
        hint(format!(
            "{} coordinators answered behind this endpoint; the figures cover all of them",
            summary.run.coordinators.len()
        ));
    }
    let longest = micros(summary.longest_unfinished);
    if summary.acquire.is_some_and(|times| longest > times.max) {
        hint(format!(
            "an acquire that still waited at the end had waited for {}, longer than any that was granted",
            time(longest)
        ));
    }
    if summary.least == 0 && summary.most > 0 {
        hint("some clients completed no cycle: measure for longer, or with fewer clients".into());
    } else if (1..FEW).contains(&summary.cycles) {
        hint(format!(
            "with only {} cycles, p99.9 is the maximum: measure for longer",
            summary.cycles
        ));
    }
    hints
}

fn is_loopback(endpoint: &str) -> bool {
    let endpoint = endpoint.trim();
    let rest = endpoint
        .split_once("://")
        .map_or(endpoint, |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or(rest);
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    };
    host == "localhost"
        || host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .parse()
            .is_ok_and(|address: std::net::IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_known_by_its_addresses() {
        for (endpoint, loopback) in [
            ("http://127.0.0.1:7420", true),
            ("https://127.1.2.3", true),
            ("http://[::1]:7420", true),
            ("http://localhost:7420/", true),
            ("http://10.0.0.1:7420", false),
            ("http://[2001:db8::1]:7420", false),
            ("http://locks.example:7420", false),
            ("http://127.0.0.1.example:7420", false),
        ] {
            assert_eq!(is_loopback(endpoint), loopback, "{endpoint}");
        }
    }
}
