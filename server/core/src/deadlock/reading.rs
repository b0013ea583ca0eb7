//! Reading of one pass: the names in their order, in batches. Bounds how many names and edges a pass reads, and for how long; a
//! name that is not read counts as about to come free.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use crate::{name::LockName, time::Moment, view::NameEdges};

use super::{
    Pass, Publication,
    share::{Lot, Omitted},
};

/// Most names that a pass reads.
const NAMES: usize = 2048;
/// Names that are read before the others: what every coordinator published first, in turns.
const FIRST: usize = 256;
/// Most holders and waiters that a pass reads, except that the last batch may exceed it.
const EDGES: usize = 32 << 10;
/// Time for which a pass reads names, except that the last batch may exceed it. A deadlock is found two passes after it
/// closed, so that this bounds the time until then, however much there is to read and however slow the store is.
const READ_FOR: Duration = Duration::from_millis(500);
/// Size of a batch, about, so that the store serves others in between: its holders and waiters, and [`NAME`] for each name.
const BATCH: usize = 128;
/// Holders and waiters that take as long to read as a name without any.
const NAME: usize = 8;
/// Names in the first batch, whose sizes are not known.
const FIRST_BATCH: usize = 4;

/// Pass whose names are being read.
#[derive(Debug)]
pub(super) struct Reading {
    pass: Pass,
    /// The names that remain.
    names: VecDeque<LockName>,
    begun: Moment,
    /// The beginning of the last batch.
    asked: Moment,
    edges: usize,
    /// The number of names in the next batch.
    size: usize,
}

impl Reading {
    /// Begins to read the names that coordinators have published. Counts those that are left out.
    pub(super) fn new(
        published: &[Arc<Publication>],
        lot: Lot,
        now: Moment,
        omitted: &mut Omitted,
    ) -> Self {
        let mut pass = Pass::default();
        for publication in published {
            pass.blocked.extend_from_slice(&publication.waits);
            pass.omissions.add(&publication.omissions);
        }
        let mut names = names(published, lot);
        omitted.names += names.len().saturating_sub(NAMES);
        names.truncate(NAMES);
        Self {
            pass,
            names: names.into(),
            begun: now,
            asked: now,
            edges: 0,
            size: FIRST_BATCH,
        }
    }

    /// Returns the names of the next batch.
    pub(super) fn batch(&mut self, now: Moment) -> Vec<LockName> {
        self.asked = now;
        let size = self.size.min(self.names.len());
        self.names.drain(..size).collect()
    }

    /// Takes in those names of a batch that could be read. Returns the time to rest before the next batch, or `None` if there
    /// is none; counts the names that bounds leave out.
    pub(super) fn take(
        &mut self,
        read: Vec<(LockName, NameEdges)>,
        now: Moment,
        omitted: &mut Omitted,
    ) -> Option<Duration> {
        let names = read.len();
        let edges = read
            .iter()
            .map(|(_, edges)| edges.holders.len() + edges.waiters.len());
        let edges: usize = edges.sum();
        self.edges += edges;
        self.pass.names.extend(read);
        let remaining = self.names.len();
        if remaining == 0 {
            return None;
        }
        if self.edges >= EDGES {
            omitted.edges += remaining;
            return None;
        }
        // So that others have the store for a third of the time at least.
        let rest = self.asked.until(now) / 2;
        if self.begun.until(now) + rest >= READ_FOR {
            omitted.time += remaining;
            return None;
        }
        // As much as names have had on average, or of late if that is more.
        let average = self.edges / self.pass.names.len().max(1);
        let each = average.max(edges / names.max(1));
        self.size = (BATCH / (NAME + each)).max(1);
        Some(rest)
    }

    /// Returns the pass as far as it was read.
    pub(super) fn end(self) -> Pass {
        self.pass
    }
}

/// Returns all names in the order in which they are read. The names that coordinators published first come first; the lot
/// decides among the others.
fn names(published: &[Arc<Publication>], lot: Lot) -> Vec<LockName> {
    let waits = published.iter().flat_map(|of| of.waits.iter().enumerate());
    let mut waits: Vec<_> = waits.collect();
    waits.sort_by_key(|(turn, _)| *turn);
    let mut seen = HashSet::new();
    let names = waits.into_iter().map(|(_, wait)| &wait.name);
    let names = names.filter(|name| seen.insert(*name));
    let mut names: Vec<_> = names.cloned().collect();
    if let Some(others) = names.get_mut(FIRST..) {
        others.sort_by_cached_key(|name| lot.rank(name));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        deadlock::BlockedWait,
        id::{Actor, OwnerId, SessionId},
        mode::Mode,
        name::ClientName,
        time::StoreTime,
        view::WaitEdge,
    };

    const START: Moment = Moment::from_micros(0);

    fn publication(prefix: &str, waits: usize) -> Arc<Publication> {
        let waits = (0..waits).map(|number| BlockedWait {
            session: SessionId::from_bytes([1; 16]),
            actor: Actor::new(1),
            ticket: OwnerId::from_bytes([1; 16]),
            name: LockName::parse(&format!("{prefix}{number}")).unwrap(),
        });
        Arc::new(Publication {
            waits: waits.collect(),
            ..Publication::default()
        })
    }

    /// Returns the names that a pass may read, in order, and how many it leaves out.
    fn begin(published: &[Arc<Publication>], seed: u64) -> (Vec<LockName>, usize) {
        let mut omitted = Omitted::default();
        let reading = Reading::new(published, Lot::new(seed), START, &mut omitted);
        (reading.names.into(), omitted.names)
    }

    #[test]
    fn what_each_coordinator_published_first_is_always_read_and_the_rest_sooner_or_later() {
        let published = [
            publication("a", 4000),
            publication("z", 3),
            publication("m", 4000),
        ];
        let mut never: HashSet<LockName> = published
            .iter()
            .flat_map(|of| of.waits.iter().map(|wait| wait.name.clone()))
            .collect();
        let mut lots = 0;
        while !never.is_empty() {
            let (names, left_out) = begin(&published, lots);
            assert_eq!((names.len(), left_out), (NAMES, 8003 - NAMES));
            assert_eq!(names[1].as_str(), "z0");
            let first: Vec<_> = names[..FIRST].iter().map(LockName::as_str).collect();
            assert!(
                ["z0", "z1", "z2", "a0", "m99"]
                    .iter()
                    .all(|name| first.contains(name))
            );
            for name in names {
                never.remove(&name);
            }
            lots += 1;
            assert!(lots < 1000, "{} were never read", never.len());
        }
    }

    #[test]
    fn names_are_read_once_and_all_where_there_is_room() {
        let published = [publication("a", 300), publication("a", 500)];
        let (names, left_out) = begin(&published, 1);
        assert_eq!((names.len(), left_out), (500, 0));
    }

    /// Result of a pass.
    struct Read {
        batches: Vec<usize>,
        took: Duration,
        omitted: Omitted,
    }

    /// Reads so many names of which each has so many waiters and takes so long.
    fn read(names: usize, waiters: impl Fn(usize) -> usize, each: Duration) -> Read {
        let published = [publication("a", names), Publication::unreadable().into()];
        let (mut now, mut omitted) = (START, Omitted::default());
        let mut reading = Reading::new(&published, Lot::new(1), now, &mut omitted);
        let mut batches = Vec::new();
        let mut number = 0;
        loop {
            let batch = reading.batch(now);
            batches.push(batch.len());
            now = now.after(each * u32::try_from(batch.len()).unwrap());
            let of_batch = batch.into_iter().map(|name| {
                let edges = NameEdges {
                    holders: Vec::new(),
                    waiters: vec![waiter(); waiters(number)],
                    limit: None,
                    complete: true,
                };
                number += 1;
                (name, edges)
            });
            let of_batch = of_batch.collect();
            match reading.take(of_batch, now, &mut omitted) {
                Some(rest) => now = now.after(rest),
                None => break,
            }
        }
        let pass = reading.end();
        assert_eq!(pass.names.len(), batches.iter().sum::<usize>());
        assert!(pass.blocked.len() == names && pass.omissions.anybody);
        Read {
            batches,
            took: START.until(now),
            omitted,
        }
    }

    fn waiter() -> WaitEdge {
        WaitEdge {
            owner: OwnerId::from_bytes([1; 16]),
            session: None,
            actor: Actor::NOBODY,
            client_name: ClientName::parse("").unwrap(),
            mode: Mode::Exclusive,
            since: StoreTime::from_micros(1),
        }
    }

    #[test]
    fn a_pass_reads_for_half_a_second_at_most_and_leaves_the_store_to_others_meanwhile() {
        let pass = read(500, |_| 8, Duration::from_millis(5));
        let read_names: usize = pass.batches.iter().sum();
        let last = Duration::from_millis(8 * 5);
        let took = pass.took;
        assert!(
            took >= READ_FOR - last / 2 && took < READ_FOR + last,
            "{took:?}"
        );
        // Two thirds of the time.
        assert!((60..80).contains(&read_names), "{read_names}");
        assert_eq!(pass.omitted.time, 500 - read_names);
        let pass = read(500, |_| 8, Duration::ZERO);
        assert_eq!(pass.batches.iter().sum::<usize>(), 500);
        assert_eq!(pass.omitted, Omitted::default());
    }

    #[test]
    fn a_batch_is_as_small_as_names_are_large() {
        let pass = read(100, |_| 8, Duration::ZERO);
        assert_eq!(pass.batches[..3], [FIRST_BATCH, 8, 8]);
        let pass = read(30, |_| 500, Duration::ZERO);
        assert_eq!(pass.batches[1..], [1; 26]);
        // Small ones first: it adapts at once.
        let waiters = |number| if number < 200 { 0 } else { 100 };
        let Read {
            batches, omitted, ..
        } = read(400, waiters, Duration::ZERO);
        assert_eq!(batches[1..14], [16; 13]);
        assert!(batches[14..].iter().all(|size| *size == 1), "{batches:?}");
        assert_eq!(omitted, Omitted::default());
        let pass = read(100, |_| 512, Duration::ZERO);
        assert_eq!(pass.batches.iter().sum::<usize>() * 512, EDGES);
        assert_eq!(pass.omitted.edges, 100 - EDGES / 512);
    }
}
