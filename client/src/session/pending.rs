//! Requests of guards that have not been answered: releases, changes, and the answers that guards wait for, each for a bounded
//! time. A request goes on when its guard has stopped waiting.

use std::{collections::BTreeMap, time::Duration};

use super::{holds::Owned, messages::Change};
use crate::{clock::Moment, trace::TraceContext};

/// The first and the longest pause before a request that could not be served is repeated.
pub(super) const RETRY_FIRST: Duration = Duration::from_millis(100);
pub(super) const RETRY_MAX: Duration = Duration::from_secs(2);

/// A lock to be given back.
pub(super) struct Release {
    pub(super) owned: Owned,
    /// Index of the owner id that it is asked by. If nothing is held under one, a later one may hold it.
    pub(super) index: usize,
    pub(super) reply: Option<ReplyId>,
    /// Trace of the release.
    pub(super) trace: Option<TraceContext>,
    /// Pause before it is repeated, if it fails.
    pub(super) retry_in: Duration,
    /// Time at which it is repeated on the same stream, since the coordinator could not serve it.
    pub(super) retry_at: Option<Moment>,
    /// Set if another stream was asked before and did not answer: the release may have been carried out.
    pub(super) again: bool,
    /// Set if the resume in progress already counts the hold once less because of this release.
    pub(super) counted: bool,
    /// Set if the hold's deadline has passed, until a coordinator was told.
    pub(super) expired: bool,
}

impl Release {
    pub(super) fn new(owned: Owned, reply: Option<ReplyId>) -> Self {
        Self {
            owned,
            index: 0,
            reply,
            trace: None,
            retry_in: RETRY_FIRST,
            retry_at: None,
            again: false,
            counted: false,
            expired: false,
        }
    }

    /// Returns the release for another stream, because this one has not answered.
    pub(super) fn anew(self) -> Self {
        Self {
            index: 0,
            again: true,
            retry_at: None,
            ..self
        }
    }
}

/// A change of a hold, as its guard has asked for it.
pub(super) struct ChangeRequest {
    /// The guard's key.
    pub(super) key: u64,
    pub(super) change: Change,
    pub(super) trace: Option<TraceContext>,
    pub(super) reply: ReplyId,
}

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

    pub(super) fn take(&mut self, id: ReplyId) -> Option<H> {
        self.waiting.remove(&id).map(|(_, reply)| reply)
    }

    pub(super) fn take_due(&mut self, now: Moment) -> Option<H> {
        let first = self.waiting.first_entry()?;
        (first.get().0 <= now).then(|| first.remove().1)
    }
}
