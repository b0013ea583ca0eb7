//! Ends of rights and of connections, and losses that nothing explains.

use super::{Kind, Limits, Verdict, faults_in, seconds};
use crate::{
    history::Outcome,
    story::{Acquire, End, Fault, HoldEnd, Span, Story},
};

/// Demands that clients hold nothing, and are granted nothing, once their rights or all their connections have ended and a moment has
/// passed, and that nobody loses a hold, or is refused, whom no fault disturbed.
pub(super) fn check(story: &Story, limits: Limits, verdict: &mut Verdict) {
    for acquire in &story.acquires {
        for fault in &story.faults {
            let is = |list| Fault::names(list, &acquire.client);
            let (kind, what, notice) = if is(&fault.effects.revokes) {
                (Kind::WithoutRights, "rights", limits.noticed)
            } else if is(&fault.effects.disconnects)
                && !keeps_its_guards(story, acquire, fault, limits)
            {
                (Kind::Disconnected, "connections", limits.moment)
            } else {
                continue;
            };
            let Some(span) = held_after(acquire, fault, notice) else {
                continue;
            };
            let sentence = format!(
                "{} (acquire {}) held {:?} at {}, although its {what} had ended at {} by fault {} ({})",
                acquire.client,
                acquire.ask,
                acquire.lock,
                seconds(span.begin),
                seconds(fault.span.begin),
                fault.number,
                fault.what
            );
            verdict.broken(kind, Some(&acquire.lock), span, sentence);
        }
        let (at, what) = match (&acquire.end, &acquire.hold) {
            (_, Some(hold)) => match &hold.end {
                HoldEnd::Lost(at, why) => (*at, format!("lost {:?}: {why}", acquire.lock)),
                _ => continue,
            },
            (End::Refused(at, Outcome::Refused), None) => {
                (*at, format!("was refused {:?}", acquire.lock))
            }
            _ => continue,
        };
        let span = Span::at(at);
        let is_explained = faults_in(story, span, limits.settle).any(|fault| {
            let client = &acquire.client;
            fault.holds_up(client) || Fault::names(&fault.effects.resets, client)
        });
        if !is_explained {
            let sentence = format!(
                "{} (acquire {}) {what}, at {}, and no fault had disturbed it",
                acquire.client,
                acquire.ask,
                seconds(at)
            );
            verdict.broken(Kind::Unexplained, Some(&acquire.lock), span, sentence);
        }
    }
}

/// Returns whether guards may outlast the connections: a coordinator that stops says so first. Nor can a client know of an end
/// while it stands still.
fn keeps_its_guards(story: &Story, acquire: &Acquire, fault: &Fault, limits: Limits) -> bool {
    let mut others = faults_in(story, fault.span, limits.moment);
    others.any(|other| other.number != fault.number && other.holds_up(&acquire.client))
}

/// Returns a time in which the client held the lock during the fault, though longer after its begin than it may.
fn held_after(acquire: &Acquire, fault: &Fault, notice: u64) -> Option<Span> {
    let over = Span::new(fault.span.begin.saturating_add(notice), fault.span.end);
    let mut parts = acquire.hold.iter().flat_map(|hold| &hold.parts);
    parts.find_map(|part| part.common(over))
}
