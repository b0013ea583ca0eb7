//! Counts of a history.

use std::{collections::BTreeMap, fmt::Write as _};

use crate::{
    checks::{Verdict, seconds},
    history::{Line, Record},
    story::{End, HoldEnd, Sight, Story},
};

/// Returns the counts that matter most, in one line.
pub fn brief(lines: &[Line], story: &Story, verdict: &Verdict) -> String {
    let granted = story
        .acquires
        .iter()
        .filter(|acquire| acquire.hold.is_some());
    let told = story
        .acquires
        .iter()
        .filter_map(|acquire| acquire.hold.as_ref());
    let told = told.filter(|hold| matches!(hold.end, HoldEnd::Lost(..)));
    let resumed = lines
        .iter()
        .filter(|line| matches!(line.record, Record::Resumed { .. }));
    format!(
        "{} faults, {} grants, {} hand-offs, {} losses told, {} counted, {} resumes, {} fail-overs, {} violations",
        story.faults.len(),
        granted.count(),
        hand_offs(story).count(),
        told.count(),
        story.counted.len(),
        resumed.count(),
        story.fail_overs,
        verdict.violations.len()
    )
}

/// Returns a summary in words: faults, grants, hand-offs, losses, resumes, and what the check found.
pub fn summary(lines: &[Line], story: &Story, verdict: &Verdict) -> String {
    let mut text = String::new();
    let mut line = |what: &str, counts: &BTreeMap<String, u64>| {
        let all: u64 = counts.values().sum();
        let each: Vec<_> = counts
            .iter()
            .map(|(name, count)| format!("{count} {name}"))
            .collect();
        // Writing to a string can't fail.
        let _ = write!(text, "{what}: {all}");
        let _ = match each.is_empty() {
            true => writeln!(text),
            false => writeln!(text, " ({})", each.join(", ")),
        };
    };
    line(
        "faults",
        &count(story.faults.iter().map(|fault| fault.what.clone())),
    );
    line(
        "acquires",
        &count(story.acquires.iter().map(|acquire| match acquire.end {
            End::Granted(_) => "granted".to_owned(),
            End::Refused(_, outcome) => format!("{outcome:?}").to_lowercase(),
            End::Killed(_) => "killed".to_owned(),
            End::None => "endless".to_owned(),
        })),
    );
    line("hand-offs", &count(hand_offs(story)));
    let holds = story
        .acquires
        .iter()
        .filter_map(|acquire| acquire.hold.as_ref());
    line(
        "ends of holds",
        &count(holds.map(|hold| match &hold.end {
            HoldEnd::Released(_) => "released".to_owned(),
            HoldEnd::Lost(_, why) => format!("lost: {why}"),
            HoldEnd::Killed(_) => "killed".to_owned(),
            HoldEnd::None => "forgotten".to_owned(),
        })),
    );
    line(
        "losses counted by coordinators",
        &count(story.counted.iter().map(|loss| loss.reason.clone())),
    );
    let changes = lines.iter().filter_map(|line| match &line.record {
        Record::Suspended { .. } => Some("suspended".to_owned()),
        Record::Resumed { .. } => Some("resumed".to_owned()),
        _ => None,
    });
    line("resumes", &count(changes));
    line(
        "writes",
        &count(story.writes.iter().map(|(_, write)| {
            let outcome = if write.accepted {
                "accepted"
            } else {
                "refused"
            };
            outcome.to_owned()
        })),
    );
    let sights = story.watchers.values().flatten();
    line(
        "sights of watchers",
        &count(sights.map(|seen| match &seen.what {
            Sight::Ready => "ready".to_owned(),
            Sight::Gap => "gaps".to_owned(),
            Sight::Event(_, _, event) => format!("{event:?}").to_lowercase(),
        })),
    );
    let _ = writeln!(text, "fail-overs: {}", story.fail_overs);
    let stalls = story.stalls.iter();
    let stalled: u64 = stalls.map(|stall| stall.span.end - stall.span.begin).sum();
    let _ = writeln!(
        text,
        "times without a processor: {} ({} ms)",
        story.stalls.len(),
        stalled / 1000
    );
    let pairs = verdict.ordered_pairs;
    let (excused, violations) = (verdict.excused.len(), verdict.violations.len());
    let _ = writeln!(text, "pairs in order of service: {pairs}");
    let _ = writeln!(text, "excused by a documented fault: {excused}");
    let _ = writeln!(text, "violations: {violations}");
    if let Some((at, why)) = &story.broken_off {
        let _ = writeln!(text, "broken off at {}: {why}", seconds(*at));
    }
    text
}

/// Names each grant that ended a wait while the hold before it ended: by the mode.
fn hand_offs(story: &Story) -> impl Iterator<Item = String> {
    let mut kinds = Vec::new();
    for acquires in story.by_lock().values() {
        let mut ends: Vec<u64> = acquires
            .iter()
            .filter_map(|acquire| acquire.hold.as_ref()?.parts.last().map(|part| part.end))
            .collect();
        ends.sort_unstable();
        for acquire in acquires {
            let End::Granted(at) = acquire.end else {
                continue;
            };
            let next = ends.partition_point(|end| *end <= acquire.asked);
            if ends.get(next).is_some_and(|end| *end <= at) {
                kinds.push(format!("{:?}", acquire.mode).to_lowercase());
            }
        }
    }
    kinds.into_iter()
}

fn count(names: impl Iterator<Item = String>) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for name in names {
        *counts.entry(name).or_default() += 1;
    }
    counts
}
