//! Warnings about the figures, such as a busy client machine. Every warning states a certain fact.

use std::net::IpAddr;

use leasehold_client::Endpoints;

use super::summary::{Summary, cores, time};

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
    let (used, cores) = (summary.cores_used(), cores());
    if used >= BUSY * cores as f64 {
        hint(format!(
            "this process used {used:.1} of {cores} processors: it may limit the rate, not the coordinator"
        ));
    }
    if Endpoints::from(summary.endpoint)
        .urls()
        .iter()
        .any(|url| is_loopback(url))
    {
        hint(
            "the endpoint is on loopback: a coordinator on this machine shares its processors with this process; if a \
             tunnel leads to another machine, the figures include it"
                .into(),
        );
    }
    if summary.coordinators.len() > 1 {
        hint(format!(
            "{} coordinators answered behind this endpoint; the figures cover all of them",
            summary.coordinators.len()
        ));
    }
    let longest = summary.counts.longest_unfinished;
    let acquire = &summary.counts.acquire;
    if !acquire.is_empty() && longest > acquire.max() {
        hint(format!(
            "an acquire that still waited at the end had waited for {}, longer than any that was granted",
            time(longest)
        ));
    }
    let (least, most) = summary.range();
    if least == 0 && most > 0 {
        hint("some clients completed no cycle: measure for longer, or with fewer clients".into());
    } else if (1..FEW).contains(&summary.cycles()) {
        hint(format!(
            "with only {} cycles, p99.9 is the maximum: measure for longer",
            summary.cycles()
        ));
    }
    hints
}

/// Returns whether a complete URL, with its port, leads to this machine.
fn is_loopback(url: &str) -> bool {
    let authority = url.split('/').nth(2).unwrap_or_default();
    let host = authority.rsplit_once(':').unwrap_or_default().0;
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    address.map_or(host == "localhost", |address| address.is_loopback())
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
            let urls = Endpoints::from(endpoint);
            assert_eq!(is_loopback(&urls.urls()[0]), loopback, "{endpoint}");
        }
    }
}
