//! One pass of the detector: the exchange with other coordinators, and then the edges of the names that matter. Bounds how many
//! names and edges a pass reads, and for how long; a name that is not read counts as about to come free.

use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::Duration,
};

use leasehold_core::{
    command::{Op, Reply},
    deadlock::{Pass, Publication, share::Omitted},
    name::LockName,
    view::NameEdges,
};
use leasehold_store::{LockStore, Stamped, StoreError};
use tokio::time::Instant;

use super::{super::Coordinator, off_the_runtime};

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

/// Carries one pass out.
pub(super) async fn look(
    coordinator: &Coordinator,
    mine: Publication,
    lot: &RandomState,
    omitted: &mut Omitted,
) -> Result<Pass, StoreError> {
    let is_last = mine.is_empty();
    let published = coordinator.store().exchange(Arc::new(mine)).await?;
    if is_last {
        return Ok(Pass::default());
    }
    let (told, of_lot) = (published.clone(), lot.clone());
    let chosen = off_the_runtime(move || names(&told, &of_lot)).await;
    let (names, left_out) = chosen.unwrap_or_default();
    omitted.names += left_out;
    let mut pass = Pass::default();
    for publication in &published {
        pass.blocked.extend_from_slice(&publication.waits);
        pass.omissions.add(&publication.omissions);
    }
    let read = |batch: &[LockName]| {
        let commands = batch
            .iter()
            .map(|name| coordinator.command(name.clone(), Op::Edges))
            .collect();
        let results = coordinator.store().execute_all(commands);
        async { results.await.into_iter().map(edges_of).collect() }
    };
    pass.names = read_all(&names, omitted, read).await;
    Ok(pass)
}

/// Returns the edges of a name, or `None` if the name could not be read.
fn edges_of(result: Result<Stamped, StoreError>) -> Option<NameEdges> {
    match result.ok()?.executed.reply {
        Reply::Edges(edges) => Some(*edges),
        _ => None,
    }
}

/// Reads names in batches, within the bounds of a pass, and leaves the store to others in between. Leaves out names that could
/// not be read: each counts as about to come free.
async fn read_all<F>(
    names: &[LockName],
    omitted: &mut Omitted,
    read: impl Fn(&[LockName]) -> F,
) -> HashMap<LockName, NameEdges>
where
    F: Future<Output = Vec<Option<NameEdges>>>,
{
    let begun = Instant::now();
    let mut all = HashMap::new();
    let mut rest = names;
    let (mut edges, mut size) = (0, FIRST_BATCH);
    loop {
        let batch;
        (batch, rest) = rest.split_at(size.min(rest.len()));
        let asked = Instant::now();
        let mut of_batch = 0;
        for (name, read) in batch.iter().zip(read(batch).await) {
            if let Some(read) = read {
                of_batch += read.holders.len() + read.waiters.len();
                all.insert(name.clone(), read);
            }
        }
        edges += of_batch;
        if rest.is_empty() {
            return all;
        }
        if edges >= EDGES {
            omitted.edges += rest.len();
            return all;
        }
        // So that others have the store for a third of the time at least.
        tokio::time::sleep(asked.elapsed() / 2).await;
        if begun.elapsed() >= READ_FOR {
            omitted.time += rest.len();
            return all;
        }
        // As much as names have had on average, or of late if that is more.
        let each = (edges / all.len().max(1)).max(of_batch / batch.len().max(1));
        size = (BATCH / (NAME + each)).max(1);
    }
}

/// The names to read, in order, and how many are left out. The names that coordinators published first come first; the lot
/// decides among the others.
fn names(published: &[Arc<Publication>], lot: &RandomState) -> (Vec<LockName>, usize) {
    let longest = published.iter().map(|of| of.waits.len()).max();
    let mut seen = HashSet::new();
    let mut names = Vec::new();
    for turn in 0..longest.unwrap_or_default() {
        let waits = published.iter().filter_map(|of| of.waits.get(turn));
        for wait in waits {
            if seen.insert(&wait.name) {
                names.push(wait.name.clone());
            }
        }
    }
    let left_out = names.len().saturating_sub(NAMES);
    if let Some(others) = names.get_mut(FIRST..) {
        others.sort_by_cached_key(|name| lot.hash_one(name));
    }
    names.truncate(NAMES);
    (names, left_out)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::cell::RefCell;

    use leasehold_core::{
        deadlock::BlockedWait,
        id::{Actor, OwnerId, SessionId},
        mode::Mode,
        name::ClientName,
        time::StoreTime,
        view::WaitEdge,
    };

    use super::*;

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
            let (names, left_out) = names(&published, &RandomState::new());
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

    /// Reads names of which each has so many waiters and takes so long, and returns in batches of which sizes that was.
    async fn batches(
        names: usize,
        waiters: impl Fn(usize) -> usize,
        each: Duration,
    ) -> (Vec<usize>, Omitted) {
        let names = publication("a", names);
        let names: Vec<_> = names.waits.iter().map(|wait| wait.name.clone()).collect();
        let (sizes, mut omitted) = (RefCell::new(Vec::new()), Omitted::default());
        let read = |batch: &[LockName]| {
            let first: usize = sizes.borrow().iter().sum();
            sizes.borrow_mut().push(batch.len());
            let of_batch = (first..first + batch.len()).map(|number| {
                Some(NameEdges {
                    holders: Vec::new(),
                    waiters: vec![waiter(); waiters(number)],
                    complete: true,
                })
            });
            let of_batch: Vec<_> = of_batch.collect();
            async move {
                tokio::time::sleep(each * u32::try_from(of_batch.len()).unwrap()).await;
                of_batch
            }
        };
        let all = read_all(&names, &mut omitted, read).await;
        let sizes = sizes.into_inner();
        assert_eq!(all.len(), sizes.iter().sum::<usize>());
        (sizes, omitted)
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

    #[tokio::test(start_paused = true)]
    async fn a_pass_reads_for_half_a_second_at_most_and_leaves_the_store_to_others_meanwhile() {
        let begun = Instant::now();
        let (sizes, omitted) = batches(500, |_| 8, Duration::from_millis(5)).await;
        let read: usize = sizes.iter().sum();
        let took = begun.elapsed();
        let limit = READ_FOR + Duration::from_millis(16 * 5 * 3 / 2);
        assert!(took >= READ_FOR && took < limit, "{took:?}");
        // Two thirds of the time.
        assert!((60..80).contains(&read), "{read}");
        assert_eq!(omitted.time, 500 - read);
        let (sizes, omitted) = batches(500, |_| 8, Duration::ZERO).await;
        assert_eq!(sizes.iter().sum::<usize>(), 500);
        assert_eq!(omitted, Omitted::default());
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_is_as_small_as_names_are_large() {
        let (sizes, _) = batches(100, |_| 8, Duration::ZERO).await;
        assert_eq!(sizes[..3], [FIRST_BATCH, 8, 8]);
        let (sizes, _) = batches(30, |_| 500, Duration::ZERO).await;
        assert_eq!(sizes[1..], [1; 26]);
        // Small ones first: it adapts at once.
        let waiters = |number| if number < 200 { 0 } else { 100 };
        let (sizes, omitted) = batches(400, waiters, Duration::ZERO).await;
        assert_eq!(sizes[1..14], [16; 13]);
        assert!(sizes[14..].iter().all(|size| *size == 1), "{sizes:?}");
        assert_eq!(omitted, Omitted::default());
        let (sizes, omitted) = batches(100, |_| 512, Duration::ZERO).await;
        assert_eq!(sizes.iter().sum::<usize>() * 512, EDGES);
        assert_eq!(omitted.edges, 100 - EDGES / 512);
    }

    #[test]
    fn names_are_read_once_and_all_where_there_is_room() {
        let published = [publication("a", 300), publication("a", 500)];
        let (names, left_out) = names(&published, &RandomState::new());
        assert_eq!((names.len(), left_out), (500, 0));
    }
}
