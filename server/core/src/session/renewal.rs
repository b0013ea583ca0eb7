//! Renewal of a session's holds, and the heartbeats that wait for it.
//!
//! Heartbeats drive it: the holds of a client that sends none are not renewed, even if its connection stands, since a proxy may
//! keep that up for a client that is long dead. The client sends a heartbeat every third of the TTL; one that finds the
//! holds due has them renewed in one batch first, and is answered with what that gave. A renewal that fails is tried again
//! until the holds' time is up; once it succeeds, the session tells the client unasked for how much longer its last answered
//! heartbeat is good, since the client would give its locks up otherwise.

use std::{collections::VecDeque, time::Duration};

use super::RequestId;
use crate::{command::Loss, id::OwnerId, time::Moment};

/// Time until a failed renewal is tried again.
pub(super) const RETRY: Duration = Duration::from_millis(100);
/// Most heartbeats that wait for a renewal before they are answered; of more, the oldest are not.
pub const MAX_PENDING_ACKS: usize = 16;

/// A heartbeat that is not answered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct PendingAck {
    pub(super) request: RequestId,
    pub(super) sequence: u64,
    pub(super) heard_at: Moment,
}

/// The renewal that is under way, and what waits for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Renewal {
    batch: Option<Batch>,
    acks: VecDeque<PendingAck>,
    /// The newest heartbeat that was answered while a renewal had failed: the client may be promised more later.
    short_ack: Option<PendingAck>,
    retry_at: Option<Moment>,
    /// Whether to renew again once the batch has ended: it may have been carried out before what it is to find.
    again: bool,
}

/// Commands that are sent together, and what they came to so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Batch {
    outstanding: usize,
    pub(super) renewed: usize,
    pub(super) lost: Vec<(OwnerId, Loss)>,
    pub(super) failed: usize,
    /// Whether one has failed through no fault of its key.
    pub(super) is_late: bool,
}

/// Result of one command of a batch.
pub(super) enum Renewed {
    /// The hold was renewed.
    Yes,
    /// The hold is gone.
    Lost(OwnerId, Loss),
    /// The store did not answer.
    Failed {
        /// Whether that is for the key's sake alone.
        for_its_key: bool,
    },
    /// The hold was released or taken meanwhile.
    Gone,
}

impl Renewal {
    /// Returns whether commands of a batch are outstanding.
    pub(super) fn is_running(&self) -> bool {
        self.batch.is_some()
    }

    /// Asks for one more renewal after the batch. Returns false if there is none.
    pub(super) fn ask_again(&mut self) -> bool {
        self.again = self.is_running();
        self.again
    }

    /// Returns whether one more renewal was asked for.
    pub(super) fn is_again(&self) -> bool {
        self.again
    }

    /// Notes that so many commands are sent.
    pub(super) fn begin(&mut self, outstanding: usize) {
        self.again = false;
        self.batch = Some(Batch {
            outstanding,
            ..Batch::default()
        });
    }

    /// Takes in what one of them came to. Returns the batch if it was the last.
    pub(super) fn answered(&mut self, renewed: Renewed) -> Option<Batch> {
        let batch = self.batch.as_mut()?;
        match renewed {
            Renewed::Yes => batch.renewed += 1,
            Renewed::Lost(owner, loss) => batch.lost.push((owner, loss)),
            Renewed::Failed { for_its_key } => {
                batch.failed += 1;
                batch.is_late |= !for_its_key;
            }
            Renewed::Gone => {}
        }
        batch.outstanding -= 1;
        if batch.outstanding > 0 {
            return None;
        }
        self.batch.take()
    }

    /// Takes in that a renewal ended: one that failed is tried again, and after one that did not, a short answer is made good.
    pub(super) fn ended(&mut self, has_failed: bool, now: Moment) {
        if has_failed {
            self.retry_at = Some(now.after(RETRY));
            self.short_ack = self.acks.back().copied().or(self.short_ack);
        } else if let Some(short) = self.short_ack.take()
            && self.acks.is_empty()
        {
            // Of itself: the request was answered already.
            self.acks.push_back(PendingAck {
                request: 0,
                ..short
            });
        }
    }

    /// Takes a heartbeat in.
    pub(super) fn heard(&mut self, ack: PendingAck) {
        if self.acks.len() == MAX_PENDING_ACKS {
            self.acks.pop_front();
        }
        self.acks.push_back(ack);
    }

    /// Notes that the newest heartbeat is answered before the renewal has ended.
    pub(super) fn answer_early(&mut self) {
        self.short_ack = self.acks.back().copied();
    }

    /// Removes the heartbeats that wait.
    pub(super) fn take_acks(&mut self) -> VecDeque<PendingAck> {
        std::mem::take(&mut self.acks)
    }

    /// Forgets the heartbeats, answered or not: nobody is there to be answered.
    pub(super) fn forget_acks(&mut self) {
        self.acks.clear();
        self.short_ack = None;
    }

    /// Returns when to try again.
    pub(super) fn retry_at(&self) -> Option<Moment> {
        self.retry_at
    }

    /// Returns whether it is time to try again; once.
    pub(super) fn take_retry(&mut self, now: Moment) -> bool {
        let is_due = self.retry_at.is_some_and(|at| at <= now);
        if is_due {
            self.retry_at = None;
        }
        is_due
    }
}
