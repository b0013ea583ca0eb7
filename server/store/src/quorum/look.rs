//! View of a lock, as a majority of the masters reports it.

use std::{sync::Arc, time::Duration};

use leasehold_core::{
    failure::StoreError,
    id::FencingToken,
    name::LockName,
    view::{HoldEdge, HolderView},
};

use super::{
    decide::{Vote, largest, majority},
    record::Record,
    round::{Masters, Round},
    script::{Ask, Found, Said},
};

/// Value of the key of a closed lock.
pub(super) const CLOSED: &[u8] = b"lh:closed";

/// Answers of the masters.
pub(super) struct Seen {
    pub(super) round: Round,
    found: Vec<Found>,
    holder: Option<Vec<u8>>,
}

impl Masters {
    /// Looks at a lock until its holder is certain, or the time is up. If too many masters are silent to be certain, shows the
    /// holder on most masters; but a majority must answer.
    pub(super) async fn look(self: &Arc<Self>, name: &LockName) -> Result<Seen, StoreError> {
        let needed = majority(self.number());
        let mut round = self.ask(name, Ask::look());
        let mut found: Vec<Found> = Vec::new();
        let certain = loop {
            let holders = found.iter().map(|found| found.holder.as_deref());
            if let Some((holder, number)) = largest(holders)
                && number >= needed
            {
                break Some(holder);
            }
            let judge = |_, said, counts| match said {
                Said::Holds(here) if counts => {
                    found.push(here);
                    Vote::Yes
                }
                _ => Vote::Out,
            };
            if !round.hear(judge).await {
                break None;
            }
        };
        if found.len() < needed {
            return Err(round.unavailable());
        }
        let held = found.iter().filter_map(|found| found.holder.as_deref());
        let holder = certain.unwrap_or_else(|| largest(held).map(|(holder, _)| holder));
        let holder = holder.map(<[u8]>::to_vec);
        Ok(Seen {
            round,
            found,
            holder,
        })
    }
}

impl Seen {
    /// Returns the newest token, if any.
    pub(super) fn token(&self) -> Option<FencingToken> {
        let records = self
            .found
            .iter()
            .filter_map(|found| found.record.as_deref());
        let tokens = records.filter_map(|record| Some(Record::parse(record)?.token));
        tokens.max().filter(|token| token.get() != 0)
    }

    /// Returns the holder.
    pub(super) fn holder(&self) -> Option<HolderView> {
        holder(self.holder.as_deref()?, self.found.iter())
    }

    /// Returns the holder's edge for the detector of deadlocks.
    pub(super) fn edge(&self) -> Option<HoldEdge> {
        let holder = self.holder.as_deref()?;
        self.found.iter().find_map(|found| {
            let record = Record::parse(found.record.as_deref()?)?;
            Some(record.of(holder)?.edge())
        })
    }

    /// Returns how long it is closed.
    pub(super) fn closed_for(&self) -> Option<Duration> {
        (self.holder.as_deref() == Some(CLOSED)).then(|| left(CLOSED, self.found.iter()))?
    }
}

/// Returns the view of a holder from the masters' answers; `None` if the lock is closed.
pub(super) fn holder<'a>(
    holder: &[u8],
    found: impl Iterator<Item = &'a Found> + Clone,
) -> Option<HolderView> {
    if holder == CLOSED {
        return None;
    }
    let expires_in = left(holder, found.clone());
    let records = found.filter_map(|found| Record::parse(found.record.as_deref()?));
    let records = records.filter(|record| record.of(holder).is_some());
    let newest = records.max_by_key(|record| record.token);
    match newest.as_ref().and_then(|record| record.of(holder)) {
        Some(grant) => {
            let hold = grant.view(expires_in.unwrap_or_default());
            Some(HolderView::Ours(Box::new(hold)))
        }
        // Without a record it may also be an unknown acquire in flight.
        None => Some(HolderView::Foreign { expires_in }),
    }
}

/// Returns the shortest remaining time of a holder at the masters that have it.
fn left<'a>(holder: &[u8], found: impl Iterator<Item = &'a Found>) -> Option<Duration> {
    let held = found.filter(|found| found.holder.as_deref() == Some(holder));
    held.filter_map(|found| found.left).min()
}
