//! View of a lock, as a majority of the masters reports it.

use std::time::Duration;

use leasehold_core::{
    id::FencingToken,
    name::LockName,
    time::StoreTime,
    view::{HoldEdge, HolderView},
};

use super::{
    decide::{largest, majority},
    master::Outcome,
    record::Record,
    round::Masters,
    script::{Ask, Found, Said},
};
use leasehold_core::failure::StoreError;

const CLOSED: &[u8] = b"lh:closed";

/// Answers of the masters.
#[derive(Debug, Default)]
pub(super) struct Seen {
    found: Vec<Found>,
    holder: Option<Vec<u8>>,
    pub(super) token: Option<FencingToken>,
    pub(super) at: Option<StoreTime>,
}

impl Masters {
    /// Looks at a lock until its holder is certain, or the time is up. If too many masters are silent to be certain, shows the
    /// holder on most masters; but a majority must answer.
    pub(super) async fn look(&self, name: &LockName) -> Result<Seen, StoreError> {
        let needed = majority(self.number());
        let mut round = self.ask(name, Ask::Look);
        let mut seen = Seen::default();
        loop {
            let holders = seen.found.iter().map(|found| found.holder.as_deref());
            let most = largest(holders).map_or(0, |(_, number)| number);
            if most >= needed {
                break;
            }
            let Some(answer) = round.next().await else {
                break;
            };
            let Outcome::Said { reply, counts } = answer.outcome else {
                continue;
            };
            if let Said::Holds(found) = reply.said
                && counts
            {
                round.tally().yes();
                seen.at = seen.at.max(Some(reply.at));
                seen.found.push(found);
            }
        }
        if seen.found.len() < needed {
            return Err(round
                .wrong_type()
                .unwrap_or_else(|| StoreError::Unavailable {
                    reason: self.why(&round),
                }));
        }
        let all = seen.found.iter().map(|found| found.holder.as_deref());
        let holder = match largest(all) {
            Some((holder, number)) if number >= needed => holder,
            _ => largest(
                seen.found
                    .iter()
                    .filter_map(|found| found.holder.as_deref()),
            )
            .map(|(holder, _)| holder),
        };
        let holder = holder.map(<[u8]>::to_vec);
        seen.holder = holder;
        let records = seen
            .found
            .iter()
            .filter_map(|found| found.record.as_deref());
        seen.token = records
            .filter_map(Record::parse)
            .map(|record| record.token)
            .max();
        Ok(seen)
    }
}

impl Seen {
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
    match newest
        .as_ref()
        .and_then(|record| Some((record.token, record.of(holder)?)))
    {
        Some((token, grant)) => {
            let left = expires_in.unwrap_or_default();
            Some(HolderView::Ours(Box::new(grant.view(token, left))))
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
