//! Ends of rights, and losses that nothing explains.

use super::{Kind, Limits, Verdict, Violation, faults_in, seconds};
use crate::{
    history::Outcome,
    story::{Acquire, End, Fault, HoldEnd, Span, Story},
};

/// Demands that clients hold nothing, and are granted nothing, once their rights have ended and a moment has passed, and that nobody
/// loses a hold or fails to acquire whom no fault disturbed.
pub(super) fn check(story: &Story, limits: Limits, verdict: &mut Verdict) {
    for acquire in &story.acquires {
        for fault in &story.faults {
            if let Some(span) = without_rights(acquire, fault, limits) {
                let sentence = format!(
                    "{} (acquire {}) held {:?} at {}, although its rights had ended at {} by fault {} ({})",
                    acquire.client,
                    acquire.ask,
                    acquire.lock,
                    seconds(span.begin),
                    seconds(fault.span.begin),
                    fault.number,
                    fault.what
                );
                report(Kind::WithoutRights, sentence, acquire, span, verdict);
            }
        }
        let (at, what) = match (&acquire.end, &acquire.hold) {
            (_, Some(hold)) => match &hold.end {
                HoldEnd::Lost(at, why) => (*at, format!("lost {:?}: {why}", acquire.lock)),
                _ => continue,
            },
            (End::Refused(at, Outcome::Failed), None) => {
                (*at, format!("failed to acquire {:?}", acquire.lock))
            }
            _ => continue,
        };
        let span = Span { begin: at, end: at };
        let is_explained = faults_in(story, span, limits.settle).any(|fault| {
            let lists = [&fault.disturbs, &fault.stops, &fault.resets];
            lists.iter().any(|list| Fault::names(list, &acquire.client))
        });
        if !is_explained {
            let sentence = format!(
                "{} (acquire {}) {what}, at {}, and no fault had disturbed it",
                acquire.client,
                acquire.ask,
                seconds(at)
            );
            report(Kind::Unexplained, sentence, acquire, span, verdict);
        }
    }
}

/// Returns a time in which the client held the lock by no right.
fn without_rights(acquire: &Acquire, fault: &Fault, limits: Limits) -> Option<Span> {
    if !Fault::names(&fault.revokes, &acquire.client) {
        return None;
    }
    let over = Span {
        begin: fault.span.begin.saturating_add(limits.noticed),
        end: fault.span.end,
    };
    let mut parts = acquire.hold.iter().flat_map(|hold| &hold.parts);
    parts.find_map(|part| part.common(over))
}

fn report(kind: Kind, sentence: String, acquire: &Acquire, span: Span, verdict: &mut Verdict) {
    verdict.violations.push(Violation {
        kind,
        sentence,
        lock: Some(acquire.lock.clone()),
        span,
    });
}
