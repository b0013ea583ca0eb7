//! One pass of the detector: the exchange with other coordinators, and then the edges of the names that matter. Bounds how many
//! names and edges a pass reads; a name that is not read counts as about to come free.

use std::{
    collections::HashSet,
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use leasehold_core::{
    command::{Op, Reply},
    deadlock::{Pass, Publication},
    name::LockName,
};
use leasehold_store::{LockStore, StoreError};

use super::{super::Coordinator, share::Omitted};

/// Most names that a pass reads.
const NAMES: usize = 2048;
/// Names that are read before the others: what every coordinator published first, in turns.
const FIRST: usize = 256;
/// Most holders and waiters that a pass reads, except that the last batch may exceed it.
const EDGES: usize = 32 << 10;
/// About as many holders and waiters are read in one batch, so that the store serves others in between.
const BATCH: usize = 512;
/// Most names in a batch, and how many are in the first one.
const BATCH_NAMES: (usize, usize) = (256, 4);

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
    let (names, left_out) = names(&published, lot);
    omitted.names += left_out;
    let mut pass = Pass::default();
    for publication in &published {
        pass.blocked.extend_from_slice(&publication.waits);
        pass.omissions.add(&publication.omissions);
    }
    let mut rest = names.as_slice();
    let (mut edges, mut size) = (0, BATCH_NAMES.1);
    while !rest.is_empty() {
        if edges >= EDGES {
            omitted.edges += rest.len();
            break;
        }
        let batch;
        (batch, rest) = rest.split_at(size.min(rest.len()));
        let commands = batch
            .iter()
            .map(|name| coordinator.command(name.clone(), Op::Edges))
            .collect();
        let results = coordinator.store().execute_all(commands).await;
        for (name, result) in batch.iter().zip(results) {
            // A name that could not be read counts as about to come free.
            let Ok(Reply::Edges(read)) = result.map(|stamped| stamped.executed.reply) else {
                continue;
            };
            edges += read.holders.len() + read.waiters.len();
            pass.names.insert(name.clone(), *read);
        }
        let each = edges / pass.names.len().max(1);
        size = (BATCH / each.max(1)).clamp(1, BATCH_NAMES.0);
    }
    Ok(pass)
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
    use leasehold_core::{
        deadlock::BlockedWait,
        id::{Actor, OwnerId, SessionId},
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

    #[test]
    fn names_are_read_once_and_all_where_there_is_room() {
        let published = [publication("a", 300), publication("a", 500)];
        let (names, left_out) = names(&published, &RandomState::new());
        assert_eq!((names.len(), left_out), (500, 0));
    }
}
