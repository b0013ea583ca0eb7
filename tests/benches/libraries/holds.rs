//! Hand-offs between programs: their holds of one lock, put together.

use anyhow::ensure;

use crate::program::Program;

/// Returns the times from the begin of a release to the next grant, in microseconds. Fails if two holds overlapped.
pub(crate) fn between(
    programs: &[&Program],
    endpoint: &str,
    clients: usize,
    seconds: f64,
) -> anyhow::Result<Vec<i64>> {
    let mut running = Vec::new();
    for program in programs {
        running.push(program.start("leasehold", "handoff", endpoint, clients, seconds)?);
    }
    let mut parts: Vec<Vec<[i64; 3]>> = Vec::new();
    for program in running {
        parts.push(serde_json::from_str(&program.printed()?)?);
    }
    // All take part: one that starts slowly has not begun to count.
    let from = parts
        .iter()
        .map(|part| part.iter().map(|hold| hold[1]).min());
    let from = from
        .map(Option::unwrap_or_default)
        .max()
        .unwrap_or_default();
    let until = parts
        .iter()
        .map(|part| part.iter().map(|hold| hold[2]).max());
    let until = until
        .map(Option::unwrap_or_default)
        .min()
        .unwrap_or_default();
    let mut holds: Vec<_> = parts.into_iter().flatten().collect();
    holds.retain(|hold| hold[1] >= from && hold[2] <= until);
    holds.sort_unstable();
    let mut gaps = Vec::new();
    for pair in holds.windows(2) {
        let ([_, _, releasing], [token, granted, _]) = (pair[0], pair[1]);
        ensure!(
            releasing <= granted,
            "the hold with token {token} began before the one before it ended"
        );
        gaps.push(granted - releasing);
    }
    Ok(gaps)
}
