//! Order of fencing tokens.

use super::{Kind, Verdict, seconds};
use crate::story::{Acquire, Span};

/// Demands that a grant's token is larger than those of all grants that were known before its acquire began.
pub(super) fn check(lock: &str, acquires: &[&Acquire], verdict: &mut Verdict) {
    let grants: Vec<(&Acquire, i64)> = acquires
        .iter()
        .filter_map(|acquire| Some((*acquire, acquire.hold.as_ref()?.token?)))
        .collect();
    // Both in real time: by the time of the grant, and by that of the request.
    let mut known = grants.clone();
    known.sort_by_key(|(acquire, _)| acquire.end.at());
    let mut asked = grants;
    asked.sort_by_key(|(acquire, _)| acquire.asked);
    let mut known = known.into_iter().peekable();
    let mut largest: Option<(&Acquire, i64)> = None;
    for (acquire, token) in asked {
        while let Some(before) = known.next_if(|(before, _)| before.end.at() < acquire.asked) {
            if largest.is_none_or(|(_, most)| before.1 > most) {
                largest = Some(before);
            }
        }
        let Some((before, most)) = largest else {
            continue;
        };
        if token <= most {
            let sentence = format!(
                "{}'s acquire {} of {lock:?} was granted at {} with token {token}, although {} had token {most} at {}, before it \
                     began at {}",
                acquire.client,
                acquire.ask,
                seconds(acquire.end.at()),
                before.client,
                seconds(before.end.at()),
                seconds(acquire.asked)
            );
            verdict.broken(
                Kind::Token,
                Some(lock),
                Span::new(before.end.at(), acquire.end.at()),
                sentence,
            );
        }
    }
}
