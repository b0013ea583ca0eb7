//! Undo of a failed acquire on the masters that granted it.

use std::sync::Arc;

use leasehold_core::{failure::StoreError, name::LockName, time::Moment};

use super::{
    master::Outcome,
    round::{Masters, Round},
    script::{Ask, Said},
    undoing::Undone,
};
use crate::clock;

/// Effect of the first round at a master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The key is not set, or nothing was sent.
    Nothing,
    /// The key is set.
    Set,
    /// The key may be set, now or later.
    Unknown,
}

impl Fate {
    /// Returns the effect that follows from the outcome of the question.
    pub(super) fn of(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Said { reply, .. } => match reply.said {
                Said::Proposed { .. } => Self::Set,
                _ => Self::Nothing,
            },
            // A proposal reads the keys before it sets one: it has failed before.
            Outcome::Failed(StoreError::WrongType { .. }) | Outcome::Unsent(_) => Self::Nothing,
            Outcome::Unknown(_) | Outcome::Failed(_) => Self::Unknown,
        }
    }
}

impl Masters {
    /// Undoes an attempt at every master, in the background, also at those that have not answered yet.
    pub(super) fn undo(
        self: &Arc<Self>,
        name: &LockName,
        undo: Ask,
        undone: Option<Arc<Undone>>,
        gone_at: Moment,
        mut fates: Vec<Fate>,
        mut first: Round,
    ) {
        if fates.iter().all(|fate| *fate == Fate::Nothing) {
            return;
        }
        let question = self.question(name, undo);
        let masters = Arc::clone(self);
        let owe = move |place, not_before| {
            let question = Arc::clone(&question);
            masters.owe(place, question, not_before, gone_at, undone.clone());
        };
        // At once at masters that are known to need it: before the next try.
        for (place, fate) in fates.iter_mut().enumerate() {
            if *fate == Fate::Set {
                *fate = Fate::Nothing;
                owe(place, clock::now());
            }
        }
        tokio::spawn(async move {
            while let Some(answer) = first.next().await {
                if let Some(fate) = fates.get_mut(answer.from) {
                    *fate = Fate::of(&answer.outcome);
                }
            }
            for (place, fate) in fates.into_iter().enumerate() {
                match fate {
                    Fate::Nothing => {}
                    Fate::Set => owe(place, clock::now()),
                    // After this time, a master ignores the first round.
                    Fate::Unknown => owe(place, first.until()),
                }
            }
        });
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_proposal_that_found_a_strangers_key_needs_no_undo() {
        let failed = |error| Fate::of(&Outcome::Failed(error));
        let name = LockName::parse("x").unwrap();
        let strangers = failed(StoreError::WrongType { name });
        assert_eq!(strangers, Fate::Nothing);
        let refused = failed(StoreError::Refused {
            reason: "OOM".to_owned(),
        });
        assert_eq!(refused, Fate::Unknown);
    }
}
