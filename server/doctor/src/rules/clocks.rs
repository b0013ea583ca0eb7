//! Clocks of coordinators, of Redis and of this machine.

use std::time::Duration;

use leasehold_store::examine::facts::Clock;

use crate::{
    check::Check,
    duration::text,
    finding::{Findings, Severity},
    observed::Observations,
};

/// Difference from which on a clock is named: more than NTP leaves, and less than the shortest TTL.
const DRIFT: u64 = 1_000_000;
/// Difference that locks do not survive.
const FAR: u64 = 60_000_000;

pub(super) fn check(observed: &Observations, findings: &mut Findings) {
    let here = (
        "this machine".to_owned(),
        Clock {
            ahead: 0,
            within: 0,
        },
    );
    let coordinators = observed.answers().filter_map(|(address, status)| {
        let clock = status.clock?;
        Some((format!("the coordinator at {address}"), clock))
    });
    let servers = observed.store.iter().flat_map(|store| &store.facts.servers);
    let servers = servers.filter_map(|server| {
        let clock = server.report.as_ref().ok()?.clock?;
        Some((server.server.clone(), clock))
    });
    let clocks: Vec<_> = [here]
        .into_iter()
        .chain(coordinators)
        .chain(servers)
        .collect();
    let reference = reference(clocks.iter().map(|(_, clock)| clock.ahead).collect());
    for (index, (subject, clock)) in clocks.into_iter().enumerate() {
        let ahead = clock.ahead.saturating_sub(reference);
        let surely = ahead.unsigned_abs().saturating_sub(clock.within);
        if surely < DRIFT {
            continue;
        }
        // The clock of this machine decides nothing.
        let severity = match surely {
            _ if index == 0 => Severity::Note,
            FAR.. => Severity::Error,
            _ => Severity::Warning,
        };
        let side = if ahead < 0 { "behind" } else { "ahead of" };
        let by = text(Duration::from_micros(ahead.unsigned_abs()));
        let what = format!("its clock is {by} {side} the others");
        findings.add(severity, Check::ClockDrift, subject, what);
    }
}

/// Returns the time that most clocks agree on: their median. Of two in the middle, the one nearer to this machine's clock, which is
/// 0, counts.
fn reference(mut clocks: Vec<i64>) -> i64 {
    clocks.sort_unstable();
    let upper = clocks.len() / 2;
    let lower = clocks.len().saturating_sub(1) / 2;
    let middle = [clocks.get(lower), clocks.get(upper)];
    let middle = middle.into_iter().flatten().copied();
    middle.min_by_key(|clock| clock.unsigned_abs()).unwrap_or(0)
}
