//! Candidacy as its candidate sees it: the heartbeats that it sent, and its term with the deadline that they give it.

use std::time::Duration;

use crate::world::micros;

/// A candidacy, as the candidate sees it.
pub(super) struct Line {
    pub(super) stream: usize,
    /// The candidate's name, which no other candidacy has.
    pub(super) name: String,
    pub(super) election: usize,
    pub(super) ttl: u64,
    /// When each heartbeat was sent; the first is the opening.
    pub(super) beats: Vec<u64>,
    pub(super) interval: Option<u64>,
    pub(super) heard_at: u64,
    pub(super) term: Option<Term>,
    /// The token of its term, which may be over.
    pub(super) token: Option<i64>,
    pub(super) resigned_at: Option<u64>,
    /// Proclaims without an answer.
    pub(super) proclaims: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Term {
    pub(super) token: i64,
    pub(super) acked: u64,
    pub(super) until: u64,
}

impl Line {
    /// Returns until when a leader believes in its term; otherwise when a candidate that hears nothing gives up.
    pub(super) fn patience(&self) -> u64 {
        match self.term {
            Some(term) => term.until,
            None => self.heard_at + 2 * self.ttl,
        }
    }

    pub(super) fn beat_at(&self) -> u64 {
        let interval = self.interval.unwrap_or(self.ttl / 3);
        self.beats.last().map_or(0, |at| at + interval)
    }
}

pub(super) fn until(
    line: &Line,
    acked: u64,
    valid_for: Option<prost_types::Duration>,
) -> Option<u64> {
    let sent_at = line.beats.get(usize::try_from(acked).ok()?)?;
    let valid_for = Duration::try_from(valid_for?).ok()?;
    Some(sent_at + micros(valid_for))
}
