//! Things that the hub wants of its driver.

use std::collections::VecDeque;

use leasehold_core::name::LockName;
use leasehold_store::Subject;

use super::loading::Scope;

/// Thing that the driver is to do.
#[derive(Debug)]
pub enum Output {
    /// Opens a feed of the store.
    OpenFeed,
    /// Closes the feed.
    CloseFeed,
    /// Has the feed follow a subject.
    Follow(Subject),
    /// Has the feed follow a subject no longer.
    Unfollow(Subject),
    /// Lists the locks of a scope and has the store look at each, for the feed; [`Hub::on_loaded`](super::hub::Hub::on_loaded) takes the names.
    Load {
        /// Number of the attempt, to be repeated in the answer.
        attempt: u64,
        /// The scope.
        scope: Scope,
    },
    /// Has the store look at these names, for the feed; [`Hub::on_looked`](super::hub::Hub::on_looked) takes the results.
    Look(Vec<LockName>),
    /// Drops all loads and looks that are not answered: they are for a feed that is gone.
    DropWork,
    /// Counts watchers that were too far behind, and got a gap.
    BehindWatchers(u64),
}

pub(super) type Outputs = VecDeque<Output>;
