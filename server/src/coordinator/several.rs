//! Several names at once: all of them or none.
//!
//! They are taken one after the other, in the order of their names, which is the same for everybody: whoever waits for a
//! name holds only names before it, so that acquires of several names never wait for one another in a circle. What is held
//! meanwhile is renewed here, and nobody but the store knows of it: if the rest can't be had, it is given back without a
//! lock-delay.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use leasehold_core::{
    command::{Acquire, Reply},
    id::OwnerId,
    name::LockName,
};
use leasehold_store::{LockStore, StoreError, clock};
use tokio::{sync::oneshot, time::Instant};

use super::{
    Coordinator,
    acquire::{Acquired, InLine, Wait},
    hold::Hold,
};

/// How long to wait before a renewal that failed is tried again.
const RETRY: Duration = Duration::from_millis(100);

/// Several names that are asked for.
#[derive(Debug)]
pub struct Several {
    /// The names: none twice, in any order.
    pub names: Vec<LockName>,
    /// What is asked of each, but for its owner id.
    pub acquire: Acquire,
    /// How long to wait for all of them together.
    pub wait: Wait,
    /// Whose session it is.
    pub caller: Arc<str>,
    /// Whether the actor holds something already.
    pub holding: bool,
}

impl Coordinator {
    /// Takes several names, and waits for them as long as `wait` says; `queued` is told when it has to, once for each.
    /// What is granted ends cleanly when it is dropped, until [`Hold::told`].
    ///
    /// May be dropped at any point: what the store knows of it by then is released in the background.
    pub async fn acquire_several(
        &self,
        several: Several,
        fresh_owner: impl Fn() -> OwnerId,
        mut queued: impl FnMut(&InLine),
        cancel: oneshot::Receiver<()>,
    ) -> Result<Acquired<Vec<Hold>>, StoreError> {
        let mut holds = Vec::with_capacity(several.names.len());
        let outcome = tokio::select! {
            biased;
            outcome = self.take_all(several, &mut holds, fresh_owner, &mut queued) => outcome,
            // What is under way ends in the background.
            Ok(()) = cancel => Ok(Acquired::Cancelled),
        };
        if matches!(outcome, Ok(Acquired::Granted(()))) {
            return Ok(Acquired::Granted(holds));
        }
        // Before it is said that they were not granted, so that whoever hears it can try again. Those that fail go on in
        // the background.
        join_all(holds.into_iter().map(Hold::release)).await;
        outcome.map(|acquired| acquired.map(|()| Vec::new()))
    }

    /// Takes the names one after the other into `holds`.
    async fn take_all(
        &self,
        several: Several,
        holds: &mut Vec<Hold>,
        fresh_owner: impl Fn() -> OwnerId,
        queued: &mut impl FnMut(&InLine),
    ) -> Result<Acquired<()>, StoreError> {
        let Several {
            mut names,
            acquire,
            wait,
            caller,
            holding,
        } = several;
        names.sort_unstable();
        let until = match wait {
            Wait::For(wait) => Some(Instant::now() + wait),
            Wait::No | Wait::Forever => None,
        };
        while let Some(name) = names.get(holds.len()) {
            let wait = match until {
                Some(until) => Wait::For(until.saturating_duration_since(Instant::now())),
                None => wait,
            };
            let acquire = Acquire {
                owner: fresh_owner(),
                ..acquire.clone()
            };
            let holding = (holding || !holds.is_empty()).then(|| Arc::clone(&caller));
            let next = self.acquire(name.clone(), acquire, wait, holding, &mut *queued);
            let acquired = tokio::select! {
                biased;
                acquired = next => acquired?,
                () = self.keep(holds) => {
                    // One was lost, and those taken after it with a right that it gave: begin again.
                    join_all(holds.drain(..).map(Hold::release)).await;
                    continue;
                }
            };
            match acquired {
                Acquired::Granted(hold) => holds.push(hold.given_back()),
                other => return Ok(other.map(|_| ())),
            }
        }
        Ok(Acquired::Granted(()))
    }

    /// Renews what is held every third of its TTL; completes when one of them is lost.
    async fn keep(&self, holds: &mut [Hold]) {
        loop {
            let Some(stands_until) = holds.iter().map(Hold::stands_until).min() else {
                return std::future::pending().await;
            };
            let ttl = holds.iter().map(Hold::ttl).min().unwrap_or_default();
            let left = clock::now().until(stands_until);
            tokio::time::sleep(left.saturating_sub(ttl - ttl / 3)).await;
            let commands = holds
                .iter()
                .map(|hold| self.command(hold.name().clone(), hold.renewal()))
                .collect();
            let results = self.store().execute_all(commands).await;
            let mut failed = false;
            for (hold, result) in holds.iter_mut().zip(results) {
                match result {
                    Ok(stamped) if stamped.executed.reply == Reply::Renewed => {
                        hold.renewed(stamped.sent_at);
                    }
                    Ok(_) => return,
                    Err(_) if hold.stands_until() <= clock::now() => return,
                    Err(_) => failed = true,
                }
            }
            if failed {
                self.metrics().store_errors.inc();
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

impl<Granted> Acquired<Granted> {
    /// The same with something else granted.
    pub fn map<Other>(self, other: impl FnOnce(Granted) -> Other) -> Acquired<Other> {
        match self {
            Self::Granted(granted) => Acquired::Granted(other(granted)),
            Self::Busy(holder) => Acquired::Busy(holder),
            Self::TimedOut(holder) => Acquired::TimedOut(holder),
            Self::Cancelled => Acquired::Cancelled,
            Self::Moved => Acquired::Moved,
            Self::Failed(error) => Acquired::Failed(error),
            Self::OtherLimit { name, limit } => Acquired::OtherLimit { name, limit },
            Self::Refused(refusal) => Acquired::Refused(refusal),
            Self::Deadlocked(deadlock) => Acquired::Deadlocked(deadlock),
        }
    }
}
