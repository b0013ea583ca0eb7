//! Stories of watchers.

use std::collections::{HashMap, HashSet};

use super::{Kind, Limits, Verdict, faults_in, seconds};
use crate::{
    history::{Effects, Event},
    story::{Fault, HoldEnd, Seen, Sight, Span, Story},
};

/// Demands that each watcher sees the grants of a lock in the order of their tokens, and no hold end twice or before its grant,
/// unless the store lost data then; that no watcher sees the end of a hold that stood, unless the store lost data then and the
/// watcher is soon told of a gap; and that no watcher misses the end of a hold that was released, or what another one saw, unless it
/// was told of a gap.
pub(super) fn check(story: &Story, limits: Limits, verdict: &mut Verdict) {
    for (watcher, seen) in &story.watchers {
        in_order(story, (watcher, seen), limits, verdict);
        no_early_end(story, (watcher, seen), limits, verdict);
        each_end(story, (watcher, seen), limits, verdict);
    }
    for (watcher, seen) in &story.watchers {
        for (other, seen_there) in &story.watchers {
            if watcher != other {
                nothing_missed(story, (watcher, seen), (other, seen_there), limits, verdict);
            }
        }
    }
}

fn in_order(
    story: &Story,
    (watcher, seen): (&str, &[Seen]),
    limits: Limits,
    verdict: &mut Verdict,
) {
    let mut newest: HashMap<&str, i64> = HashMap::new();
    let mut ended: HashSet<(&str, i64)> = HashSet::new();
    for Seen { at, what } in seen {
        let (lock, token, problem) = match what {
            Sight::Ready => continue,
            Sight::Gap => {
                newest.clear();
                ended.clear();
                continue;
            }
            Sight::Event(lock, token, Event::Granted) => {
                let before = newest.insert(lock, *token);
                let problem = match before {
                    Some(before) if before >= *token => {
                        Some(format!("be granted after token {before}"))
                    }
                    _ if ended.contains(&(&**lock, *token)) => {
                        Some("be granted after its end".to_owned())
                    }
                    _ => None,
                };
                (lock, token, problem)
            }
            Sight::Event(lock, token, Event::Ended) => {
                let is_new = ended.insert((lock, *token));
                (lock, token, (!is_new).then(|| "end twice".to_owned()))
            }
        };
        if let Some(problem) = problem {
            if loses_data(story, *at, limits) {
                continue;
            }
            let sentence = format!(
                "{watcher} saw token {token} of {lock:?} {problem}, at {}",
                seconds(*at)
            );
            verdict.broken(Kind::Disordered, Some(lock), Span::at(*at), sentence);
        }
    }
}

/// Checks ends by the times at which holders began to release what was still there. A coordinator that is still at a master that
/// was replaced tells its watchers of that one, and of a gap once it has left it. A client whose connection broke, or who moved, sends
/// a release again, and one that finds nothing then counts as carried out: it does not say whether the hold had ended early before.
fn no_early_end(
    story: &Story,
    (watcher, seen): (&str, &[Seen]),
    limits: Limits,
    verdict: &mut Verdict,
) {
    let stood: HashMap<(&str, i64), (u64, &str)> = story
        .acquires
        .iter()
        .filter_map(|acquire| {
            let hold = acquire.hold.as_ref()?;
            match hold.end {
                HoldEnd::Released(at) if hold.stood.is_some() => {
                    Some(((&*acquire.lock, hold.token?), (at, &*acquire.client)))
                }
                _ => None,
            }
        })
        .collect();
    for Seen { at, what } in seen {
        let Sight::Event(lock, token, Event::Ended) = what else {
            continue;
        };
        let found = stood.get(&(&**lock, *token));
        let Some((until, client)) = found.filter(|(until, _)| at < until) else {
            continue;
        };
        let span = |until| Span::new(*at, until);
        let ends = |effects: &Effects| effects.forces || effects.cuts_leases;
        let mut before = faults_in(story, span(*at), limits.moment);
        let mut disturbs = faults_in(story, span(*until), limits.moment);
        let mut moves = faults_in(story, span(*until), limits.settle);
        let is_sent_again = disturbs
            .any(|Fault { effects, .. }| !ends(effects) && Fault::names(&effects.disturbs, client))
            || moves.any(|fault| fault.effects.moves);
        if is_sent_again && before.any(|fault| ends(&fault.effects)) {
            continue;
        }
        let soon = *at..=at.saturating_add(limits.moment);
        let is_taken_back = seen
            .iter()
            .any(|seen| soon.contains(&seen.at) && matches!(seen.what, Sight::Gap));
        if is_taken_back && loses_data(story, *at, limits) {
            continue;
        }
        let sentence = format!(
            "{watcher} saw token {token} of {lock:?} end at {}, but it stood until its holder released it at {}",
            seconds(*at),
            seconds(*until)
        );
        verdict.broken(
            Kind::Disordered,
            Some(lock),
            Span::new(*at, *until),
            sentence,
        );
    }
}

/// Checks by the holders' releases: a watcher that saw the grant sees the end of a hold that was there until it was released.
fn each_end(
    story: &Story,
    (watcher, seen): (&str, &[Seen]),
    limits: Limits,
    verdict: &mut Verdict,
) {
    let saw = |wanted: Event| -> HashSet<(&str, i64)> {
        let sights = seen.iter().filter_map(|seen| match &seen.what {
            Sight::Event(lock, token, event) if *event == wanted => Some((&**lock, *token)),
            _ => None,
        });
        sights.collect()
    };
    let (granted, ended) = (saw(Event::Granted), saw(Event::Ended));
    for acquire in &story.acquires {
        let Some(hold) = acquire.hold.as_ref().filter(|hold| hold.stood.is_some()) else {
            continue;
        };
        let (HoldEnd::Released(at), Some(token)) = (&hold.end, hold.token) else {
            continue;
        };
        let around = Span::new(acquire.end.at(), at.saturating_add(limits.settle));
        let key = (&*acquire.lock, token);
        if !granted.contains(&key)
            || ended.contains(&key)
            || around.end >= story.end
            || !is_ready(seen, around)
        {
            continue;
        }
        let sentence = format!(
            "{watcher} saw token {token} of {:?} be granted, but not its end, although its holder released it at {}, and was \
                 told of no gap",
            acquire.lock,
            seconds(*at)
        );
        verdict.broken(Kind::Missed, Some(&acquire.lock), Span::at(*at), sentence);
    }
}

/// Checks the first watcher by what the second one saw.
fn nothing_missed(
    story: &Story,
    (watcher, seen): (&str, &[Seen]),
    (other, seen_there): (&str, &[Seen]),
    limits: Limits,
    verdict: &mut Verdict,
) {
    let events: HashSet<(&str, i64, Event)> = seen
        .iter()
        .filter_map(|seen| match &seen.what {
            Sight::Event(lock, token, event) => Some((&**lock, *token, *event)),
            _ => None,
        })
        .collect();
    for Seen { at, what } in seen_there {
        let Sight::Event(lock, token, event) = what else {
            continue;
        };
        let around = Span::new(
            at.saturating_sub(limits.settle),
            at.saturating_add(limits.settle),
        );
        if around.end >= story.end
            || events.contains(&(&**lock, *token, *event))
            || !is_ready(seen, around)
        {
            continue;
        }
        let sentence = format!(
            "{watcher} did not see token {token} of {lock:?} be {}, as {other} did at {}, and was told of no gap",
            match event {
                Event::Granted => "granted",
                Event::Ended => "ended",
            },
            seconds(*at)
        );
        verdict.broken(Kind::Missed, Some(lock), Span::at(*at), sentence);
    }
}

/// Returns whether the store may forget something at a time.
fn loses_data(story: &Story, at: u64, limits: Limits) -> bool {
    let at = Span::at(at);
    faults_in(story, at, limits.moment).any(|fault| fault.effects.loses_data)
}

/// Returns whether a watcher was ready for all of a time.
fn is_ready(seen: &[Seen], span: Span) -> bool {
    let last = seen[..seen.partition_point(|seen| seen.at < span.begin)]
        .iter()
        .rev()
        .find(|seen| !matches!(seen.what, Sight::Event(..)));
    let began_ready = last.is_some_and(|seen| matches!(seen.what, Sight::Ready));
    let mut within = seen
        .iter()
        .filter(|seen| (span.begin..=span.end).contains(&seen.at));
    began_ready && !within.any(|seen| matches!(seen.what, Sight::Gap))
}
