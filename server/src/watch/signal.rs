//! Signals of watchers and observers to the hub.

use leasehold_core::name::LockName;

/// Signal of a watcher or an observer.
#[derive(Debug)]
pub(super) enum Signal {
    /// A watcher has read its page of the snapshot.
    More { id: u64 },
    /// A watcher has used up its turn, and may have more to read.
    Again { id: u64 },
    /// A watcher is gone.
    Unwatch { id: u64 },
    /// An observer of this election is gone.
    Unobserve { name: LockName },
}
