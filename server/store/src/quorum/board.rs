//! Status of the quorum: whether enough masters have a vote.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

use super::{
    decide::majority,
    round::{Masters, excuse},
    standing::Standing,
};
use crate::{
    Status, clock,
    redis::status::{DownCause, Fault, publish},
};

/// Summary of the state of all masters, as it changes.
#[derive(Debug)]
pub(super) struct Board {
    status: watch::Sender<Status>,
    /// Masters that had a vote at the last review, a bit for each.
    voters: AtomicU64,
    epoch: AtomicU64,
}

impl Board {
    pub(super) fn new() -> Self {
        let fault = Fault::new(DownCause::Connecting, "still connecting to the masters");
        Self {
            status: watch::Sender::new(fault.into()),
            voters: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
        }
    }

    pub(super) fn watch(&self) -> watch::Receiver<Status> {
        self.status.subscribe()
    }

    /// Returns why the store must grant nothing, even with a majority.
    pub(super) fn refused(&self, masters: &Masters) -> Option<String> {
        let now = clock::now();
        let disagrees = masters.all.iter().find(|master| {
            // A master that is not durable has no vote, which suffices.
            matches!(
                master.membership().standing,
                Some(Standing::Disagrees { .. })
            )
        });
        disagrees.and_then(|master| excuse(master, now))
    }

    /// Updates the summary from all masters.
    pub(super) fn review(&self, masters: &Masters) {
        let voters = masters
            .all
            .iter()
            .filter(|master| master.membership().standing == Some(Standing::Votes));
        let bits = voters.fold(0, |bits, master| bits | 1 << (master.place % 64));
        if self.voters.swap(bits, Ordering::Relaxed) != bits {
            self.epoch.fetch_add(1, Ordering::Relaxed);
        }
        let number = usize::try_from(bits.count_ones()).unwrap_or(0);
        let status = match self.refused(masters) {
            Some(reason) => Fault::new(DownCause::Disagreement, reason).into(),
            None if number >= majority(masters.number()) => Status::Up {
                epoch: self.epoch.load(Ordering::Relaxed),
            },
            None => Fault::new(DownCause::NoMajority, why(masters, number)).into(),
        };
        publish(&self.status, status, "the majority of the masters");
    }
}

fn why(masters: &Masters, number: usize) -> String {
    let now = clock::now();
    let excuses: Vec<String> = masters
        .all
        .iter()
        .filter_map(|master| excuse(master, now))
        .collect();
    format!(
        "{number} of {} masters have a vote, and {} are needed: {}",
        masters.number(),
        majority(masters.number()),
        excuses.join("; ")
    )
}
