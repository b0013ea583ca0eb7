//! Answers that guards wait for, each for a bounded time. What was asked goes on when that is over.

use std::{collections::BTreeMap, time::Duration};

use super::machine::{Machine, Output};
use crate::{clock::Moment, error::HoldFailure};

/// Time limit for the answer to a release or a change of a hold; after it, the caller learns that it is not confirmed.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The number of an answer that a caller waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ReplyId(u64);

/// The callers that wait. They are numbered in the order in which they asked, and so in that in which their time is over.
pub(super) struct Replies<H> {
    waiting: BTreeMap<ReplyId, (Moment, H)>,
    last: u64,
}

impl<H> Default for Replies<H> {
    fn default() -> Self {
        Self {
            waiting: BTreeMap::new(),
            last: 0,
        }
    }
}

impl<H> Replies<H> {
    pub(super) fn add(&mut self, now: Moment, reply: H) -> ReplyId {
        self.last += 1;
        let id = ReplyId(self.last);
        self.waiting.insert(id, (now.after(ANSWER_TIMEOUT), reply));
        id
    }

    /// Returns when the first of them has waited for long enough.
    pub(super) fn first_due(&self) -> Option<Moment> {
        self.waiting.values().next().map(|(due, _)| *due)
    }

    fn take_due(&mut self, now: Moment) -> Option<H> {
        let first = self.waiting.first_entry()?;
        (first.get().0 <= now).then(|| first.remove().1)
    }
}

impl<A, H> Machine<A, H> {
    /// Tells callers that have waited for too long that their request is not confirmed.
    pub(super) fn end_overdue_replies(&mut self, now: Moment) {
        while let Some(reply) = self.replies.take_due(now) {
            let failure = Err(HoldFailure::Unconfirmed);
            self.outputs.push_back(Output::HoldDone(reply, failure));
        }
    }

    /// Answers, unless the caller was already told that its change was not confirmed in time.
    pub(super) fn reply(&mut self, reply: Option<ReplyId>, result: Result<(), HoldFailure>) {
        if let Some((_, reply)) = reply.and_then(|id| self.replies.waiting.remove(&id)) {
            self.outputs.push_back(Output::HoldDone(reply, result));
        }
    }
}
