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

/// Answer that waits.
pub(super) enum Pending {
    /// The whole answer.
    Answer(Box<(Item, Stamped)>),
    /// The grants to waiters that came with an answer which was already given, for a lock of this slot. The reply is a copy of
    /// that answer's.
    Handed(LockName, u16, Stamped),
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
    /// Returns the lock's slot.
    pub(super) fn slot(&self) -> u16 {
        match self {
            Self::Answer(answer) => answer.0.keys.slot,
            Self::Handed(_, slot, _) => *slot,
        }
    }

    /// Answers with an error.
    pub(super) fn fail(self, observer: Option<&Observer>, error: &StoreError, meter: &Meter) {
        let (name, stamped) = match &self {
            Self::Answer(answer) => (&answer.0.command.name, &answer.1),
            Self::Handed(name, _, stamped) => (name, stamped),
        };
        if let Some(observer) = observer {
            for handed in &stamped.executed.handed {
                observer.unacknowledged(name, handed, error);
            }
        }
        if let Self::Answer(answer) = self {
            answer.0.fail(error.clone(), meter);
        }
    }
}
