//! Overlaps of holds, and limits of semaphores.

use super::{Kind, Limits, Verdict, faults_in, seconds};
use crate::{
    history::Mode,
    story::{Acquire, Fault, Hold, Span, Story},
};

/// A part of a hold.
#[derive(Clone, Copy)]
struct Held<'a> {
    acquire: &'a Acquire,
    hold: &'a Hold,
    part: Span,
}

impl Held<'_> {
    fn is_same_hold(&self, other: &Self) -> bool {
        std::ptr::eq(self.acquire, other.acquire)
    }

    fn show(&self) -> String {
        let mode = match self.acquire.mode {
            Mode::Exclusive => "alone".to_owned(),
            Mode::Shared => "shared".to_owned(),
            Mode::Permits => format!("{} permits of", self.acquire.permits),
        };
        format!(
            "{} (acquire {}, {}) held {mode} from {} to {}",
            self.acquire.client,
            self.acquire.ask,
            self.hold.token_name(),
            seconds(self.part.begin),
            seconds(self.part.end)
        )
    }
}

pub(super) fn check(
    story: &Story,
    lock: &str,
    acquires: &[&Acquire],
    limits: Limits,
    verdict: &mut Verdict,
) {
    let mut parts: Vec<Held<'_>> = Vec::new();
    for acquire in acquires {
        if let Some(hold) = &acquire.hold {
            let held = hold.parts.iter().filter(|part| part.begin < part.end);
            parts.extend(held.map(|part| Held {
                acquire,
                hold,
                part: *part,
            }));
        }
    }
    parts.sort_by_key(|held| held.part.begin);
    let mut active: Vec<Held<'_>> = Vec::new();
    for new in parts {
        active.retain(|held| held.part.end > new.part.begin);
        let mut sum = new.acquire.permits;
        let mut others = Vec::new();
        for old in active.iter().filter(|old| !old.is_same_hold(&new)) {
            let Some(common) = old.part.common(new.part) else {
                continue;
            };
            let excuse = excuse(story, old, &new, common, limits);
            match (old.acquire.mode, new.acquire.mode) {
                (Mode::Shared, Mode::Shared) => continue,
                (Mode::Permits, Mode::Permits) => {
                    // Those that a fault excuses don't count.
                    if excuse.is_none() {
                        sum += old.acquire.permits;
                        others.push(old.show());
                    }
                    continue;
                }
                _ => {}
            }
            let sentence = format!(
                "{lock:?} was held twice for {} µs: {}, and {}",
                common.end - common.begin,
                old.show(),
                new.show()
            );
            match excuse {
                Some(fault) => verdict.excused.push(format!(
                    "{sentence}; excused by fault {} ({} of {})",
                    fault.number, fault.what, fault.target
                )),
                None => verdict.broken(Kind::Overlap, Some(lock), common, sentence),
            }
        }
        if new.acquire.mode == Mode::Permits && sum > new.acquire.limit {
            verdict.broken(
                Kind::Limit,
                Some(lock),
                new.part,
                format!(
                    "{sum} permits of {lock:?} were held, of {}: {}, beside: {}",
                    new.acquire.limit,
                    new.show(),
                    others.join("; ")
                ),
            );
        }
        active.push(new);
    }
}

/// Returns a fault for which the documentation allows an overlap.
fn excuse<'a>(
    story: &'a Story,
    old: &Held<'_>,
    new: &Held<'_>,
    common: Span,
    limits: Limits,
) -> Option<&'a Fault> {
    let granted = |held: &Held<'_>| held.acquire.end.at();
    let (older, younger) = if granted(old) <= granted(new) {
        (old, new)
    } else {
        (new, old)
    };
    story.faults.iter().find(|fault| {
        let effects = &fault.effects;
        let lost = (effects.loses_data || effects.cuts_leases)
            && granted(older) <= fault.span.end
            && granted(younger) >= fault.span.begin
            && older.part.end >= fault.span.begin
            && common.end <= fault.span.end.saturating_add(limits.moment);
        // Whom the message does not reach believes in its hold until the deadline.
        let is_reached = || {
            let mut others = faults_in(story, common, limits.moment);
            let client = &older.acquire.client;
            !others.any(|other| other.number != fault.number && other.holds_up(client))
        };
        let began_within = |time| common.begin <= fault.span.end.saturating_add(time);
        let is_brief = common.end - common.begin <= limits.moment && began_within(limits.moment);
        let forced = effects.forces
            && granted(older) <= fault.span.end
            && granted(younger) >= fault.span.begin
            && (is_brief || began_within(limits.settle) && !is_reached());
        let reset = Fault::names(&effects.resets, &older.acquire.client)
            && common.end - common.begin <= limits.moment
            && common.begin >= fault.span.begin
            && common.begin <= fault.span.end.saturating_add(limits.moment);
        lost || forced || reset
    })
}
