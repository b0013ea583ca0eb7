//! Deadlines of holds.

use super::{Kind, Limits, Verdict, faults_in, seconds};
use crate::story::{Fault, HoldEnd, Span, Story};

/// Demands that nobody counts a lock as held after its deadline, and that losses are told by then.
pub(super) fn check(story: &Story, limits: Limits, verdict: &mut Verdict) {
    for acquire in &story.acquires {
        let Some(hold) = &acquire.hold else {
            continue;
        };
        let (at, what) = match &hold.end {
            HoldEnd::Released(at) => (*at, "released it as held"),
            HoldEnd::Lost(at, _) => (*at, "was told of its loss"),
            HoldEnd::Killed(_) | HoldEnd::None => continue,
        };
        if at <= hold.until.saturating_add(limits.told) {
            continue;
        }
        let late = Span::new(hold.until, at);
        let stopped = faults_in(story, late, limits.told)
            .any(|fault| Fault::names(&fault.effects.stops, &acquire.client));
        if stopped {
            continue;
        }
        verdict.broken(
            Kind::ToldLate,
            Some(&acquire.lock),
            late,
            format!(
                "{} (acquire {}, {}) could rely on {:?} until {}, and {what} only at {}",
                acquire.client,
                acquire.ask,
                hold.token_name(),
                acquire.lock,
                seconds(hold.until),
                seconds(at)
            ),
        );
    }
}
