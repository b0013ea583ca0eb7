//! Events of locks for watchers, and the mirror that a coordinator derives them from.
//!
//! The store tells of each operation what it changed ([`Telling`]), in the order in which operations were carried out.
//! A hold that simply runs out is not told of by anybody, so a coordinator that watches keeps a [`Mirror`] of what it
//! was told, looks at a name again when something on it should have run out ([`Op::Look`](crate::command::Op::Look)),
//! and tells its watchers what it finds. A look is answered among what is told, so that all of it has one order.

mod known;
mod mirror;
mod mirrored;

use std::{sync::Arc, time::Duration};

pub use mirror::Mirror;

use crate::{
    command::Loss,
    id::FencingToken,
    mode::Mode,
    name::{LockName, Value},
    time::StoreTime,
    view::{HoldView, HolderView, NameView, WaiterView},
};

/// What an operation has to tell to whoever watches.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Telling {
    /// What it changed, in order.
    pub changes: Vec<Change>,
    /// How many wait after it; `None` if the operation did not look at the queue, and thus did not change it.
    pub waiter_count: Option<u64>,
    /// What a look saw.
    pub looked: Option<Box<NameView>>,
}

/// What changed.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Somebody was granted it.
    Granted(Box<HoldView>),
    /// Somebody waits for it.
    Queued {
        /// Who.
        waiter: Box<WaiterView>,
        /// Its place: 1 is next.
        position: u64,
    },
    /// Somebody waits no longer, without a grant.
    Withdrawn(Box<WaiterView>),
    /// A hold was given back, or its session ended.
    Released {
        /// The hold; `None` where what was known of it is gone.
        hold: Option<Box<HoldView>>,
        /// For how long what it took stays closed, if it does.
        closed_for: Option<Duration>,
    },
    /// A hold of several ran out. One that was alone is not told of when it does.
    Expired(Box<HoldView>),
    /// A hold was found to be gone, or over but for its lock-delay, when it was to be renewed.
    Lost {
        /// The hold; `None` where nothing is known of it any more.
        hold: Option<Box<HoldView>>,
        /// How.
        loss: Loss,
    },
    /// An operator took it away.
    Forced(Option<Box<HoldView>>),
    /// A holder changed its value. The hold has the new one.
    ValueChanged(Box<HoldView>),
    /// A holder shares what it held alone.
    Downgraded(Box<HoldView>),
    /// Another stream took a hold over. Nothing has become of the lock, so watchers are told nothing.
    Resumed(Box<HoldView>),
}

/// What is told to a watcher: something that happened to a lock.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The lock.
    pub name: LockName,
    /// When, by the store's clock.
    pub at: StoreTime,
    /// What it was.
    pub kind: EventKind,
    /// The hold that it is about, as it was last seen; `None` where it is about a waiter, or nothing is known of it.
    pub holder: Option<HolderView>,
    /// The waiter that it is about, and its place where it has one.
    pub waiter: Option<(WaiterView, Option<u64>)>,
    /// For how long the lock is closed after it, if this closed it.
    pub closed_for: Option<Duration>,
    /// How it stands after it.
    pub after: Standing,
}

/// What can happen to a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// Somebody holds it.
    Granted,
    /// Somebody waits for it.
    Queued,
    /// Somebody waits no longer.
    Withdrawn,
    /// A hold was given back, or its session ended.
    Released,
    /// A hold ran out.
    Expired,
    /// A hold was gone before its time.
    Lost(Loss),
    /// An operator took a hold away.
    Forced,
    /// A holder changed its value.
    ValueChanged,
    /// A holder shares what it held alone.
    Downgraded,
}

/// How a lock stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// How it is held; `None` while it is not.
    pub mode: Option<Mode>,
    /// How many hold it.
    pub holder_count: u64,
    /// How many wait for it.
    pub waiter_count: u64,
}

/// Who leads the election of a name: whoever holds its lock alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Leader(pub Arc<HoldView>);

impl Leader {
    /// Who leads, as a lock stands: nobody whose time is over, though its lock-delay may not be.
    pub fn of(view: &NameView) -> Option<Self> {
        let HolderView::Ours(hold) = view.holders.first()? else {
            return None;
        };
        let leads = hold.mode == Mode::Exclusive && !hold.is_over();
        leads.then(|| Self(Arc::new((**hold).clone())))
    }

    /// The term's token.
    pub fn token(&self) -> FencingToken {
        self.0.token
    }

    /// What it proclaims.
    pub fn value(&self) -> &Value {
        &self.0.value
    }
}
