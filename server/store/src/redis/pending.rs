//! Answers that wait until replicas have acknowledged what was done.
//!
//! Grants and renewals wait, because a replica that lacks them could be promoted. All other answers go out at once, so that no
//! release, and no place in a queue, waits for a replica.

use leasehold_core::{
    command::{Executed, Reply},
    name::LockName,
};

use super::batch::Item;
use crate::{
    measure::Meter,
    store::{Observer, Stamped},
};
use leasehold_core::failure::StoreError;

/// Result of a command that waits.
pub(super) struct Pending {
    pub(super) name: LockName,
    /// The lock's slot.
    pub(super) slot: u16,
    pub(super) stamped: Stamped,
    /// The command, if its answer waits. Otherwise only the grants to waiters do, which came with an answer that was already
    /// given: the reply is a copy of that answer's.
    pub(super) item: Option<Box<Item>>,
}

/// Returns whether the answer itself must wait.
pub(super) fn has_to_wait(executed: &Executed) -> bool {
    matches!(
        executed.reply,
        Reply::Granted { .. } | Reply::Renewed | Reply::Resumed { .. }
    )
}

/// Takes the grants to waiters out of an answer.
pub(super) fn take_handed(stamped: &mut Stamped) -> Option<Stamped> {
    let handed = std::mem::take(&mut stamped.executed.handed);
    (!handed.is_empty()).then(|| Stamped {
        executed: Executed {
            handed,
            more: false,
            ..stamped.executed.clone()
        },
        sent_at: stamped.sent_at,
    })
}

impl Pending {
    /// Answers with an error.
    pub(super) fn fail(self, observer: Option<&Observer>, error: &StoreError, meter: &Meter) {
        if let Some(observer) = observer {
            for handed in &self.stamped.executed.handed {
                observer.unacknowledged(&self.name, handed, error);
            }
        }
        if let Some(item) = self.item {
            item.fail(error.clone(), meter);
        }
    }
}
