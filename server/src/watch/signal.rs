//! Signals of watchers and observers to the hub.

use leasehold_core::name::LockName;

/// Signal of a watcher or an observer.
#[derive(Debug)]
pub enum Signal {
    /// A watcher has read its page of the snapshot.
    More {
        /// Its number.
        id: u64,
    },
    /// A watcher has used up its turn, and may have more to read.
    Again {
        /// Its number.
        id: u64,
    },
    /// A watcher is gone.
    Unwatch {
        /// Its number.
        id: u64,
    },
    /// An observer of this election is gone.
    Unobserve {
        /// The election.
        name: LockName,
    },
}
