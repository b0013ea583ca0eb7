//! Writes to fenced registers.

use std::collections::{HashMap, HashSet};

use super::{Kind, Verdict, seconds};
use crate::story::{Span, Story};

/// Demands that each register refused exactly the writes whose token was older than one that it had accepted, and that each token
/// was granted to its writer.
pub(super) fn check(story: &Story, verdict: &mut Verdict) {
    let granted: HashSet<(&str, &str, i64)> = story
        .acquires
        .iter()
        .filter_map(|acquire| {
            let token = acquire.hold.as_ref()?.token?;
            Some((&*acquire.client, &*acquire.lock, token))
        })
        .collect();
    let mut writes: Vec<_> = story.writes.iter().collect();
    writes.sort_by_key(|(_, write)| write.sequence);
    let mut newest: HashMap<&str, i64> = HashMap::new();
    for (at, write) in writes {
        let before = newest.get(&*write.lock).copied();
        let old = before.is_some_and(|before| write.token < before);
        let mut broken = |kind, what: String| {
            verdict.broken(
                kind,
                Some(&write.lock),
                Span::at(*at),
                format!(
                    "{} wrote to the register of {:?} at {} with token {}, {what}",
                    write.client,
                    write.lock,
                    seconds(*at),
                    write.token
                ),
            );
        };
        if write.accepted && old {
            let before = before.unwrap_or_default();
            broken(
                Kind::OldWrite,
                format!("which was accepted although the register had accepted token {before}"),
            );
        }
        if !write.accepted && !old {
            broken(
                Kind::RefusedWrite,
                "which was refused although the register had accepted no newer token".to_owned(),
            );
        }
        if !granted.contains(&(&*write.client, &*write.lock, write.token)) {
            broken(Kind::StrangeWrite, "which it was never granted".to_owned());
        }
        if write.accepted {
            let newest = newest.entry(&write.lock).or_insert(write.token);
            *newest = write.token.max(*newest);
        }
    }
}
