//! Reports of the store, and the events of locks that follow from them.

use std::{sync::Arc, time::Duration};

use crate::{
    command::Loss,
    id::FencingToken,
    mode::{Limit, Mode},
    name::{LockName, Value},
    time::StoreTime,
    view::{HoldView, HolderView, NameView, WaiterView},
};

/// Report of an operation to watchers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Telling {
    /// The changes, in order.
    pub changes: Vec<Change>,
    /// Number of waiters after it; `None` if the operation did not look at the queue, and thus did not change it.
    pub waiter_count: Option<u64>,
    /// The view of a look.
    pub looked: Option<Box<NameView>>,
}

/// Change of a lock.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// It was granted.
    Granted(Box<HoldView>),
    /// An acquire waits for it.
    Queued {
        /// The waiter.
        waiter: Box<WaiterView>,
        /// Its place: 1 is next.
        position: u64,
    },
    /// A waiter left without a grant.
    Withdrawn(Box<WaiterView>),
    /// A hold was released, or its session ended.
    Released {
        /// The hold; `None` if its record is gone.
        hold: Option<Box<HoldView>>,
        /// Time for which the lock stays closed after its hold, if it does.
        closed_for: Option<Duration>,
    },
    /// A hold among several expired. The expiry of a single hold is not reported.
    Expired(Box<HoldView>),
    /// A renewal found its hold gone, or over except for its lock-delay.
    Lost {
        /// The hold; `None` if its record is gone.
        hold: Option<Box<HoldView>>,
        /// The reason.
        loss: Loss,
    },
    /// An operator took it away from everybody.
    Forced(Option<Box<HoldView>>),
    /// An operator took one hold away.
    ForcedHolder(Box<HoldView>),
    /// An operator removed a waiter.
    ForcedWaiter(Box<WaiterView>),
    /// A holder changed its value. The hold has the new one.
    ValueChanged(Box<HoldView>),
    /// A holder made its exclusive hold a shared one.
    Downgraded(Box<HoldView>),
    /// An operator asked a holder to release it. The lock is unchanged.
    ReleaseRequested(Box<HoldView>),
    /// Another stream resumed a hold. The lock is unchanged, so watchers receive no event.
    Resumed(Box<HoldView>),
    /// A renewal made a hold end much earlier than before. The lock is unchanged, so watchers receive no event. Other renewals
    /// are not reported.
    Shortened(Box<HoldView>),
    /// A holder gave some of its permits back.
    Reduced {
        /// The hold, with the permits that it kept.
        hold: Box<HoldView>,
        /// Number of those that it gave back.
        by: u32,
    },
    /// An acquire replaced the limit of a semaphore that has holders or waiters.
    LimitChanged(Limit),
    /// A release or view changed it after its caller had given up: perhaps on a master that stood still and was replaced, so
    /// that what it changed is no longer true. A look shows what is.
    Doubtful,
}

/// Event of a lock, for watchers.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The lock.
    pub name: LockName,
    /// Time of the event, by the store's clock.
    pub at: StoreTime,
    /// The kind of event.
    pub kind: EventKind,
    /// The hold in question, as last seen; `None` for events of waiters, or if its record is gone.
    pub holder: Option<HolderView>,
    /// The waiter in question, and its place, if it has one.
    pub waiter: Option<(WaiterView, Option<u64>)>,
    /// Time for which the lock is closed after it, if this closed it.
    pub closed_for: Option<Duration>,
    /// The semaphore's limit in force after it, if this changed it.
    pub limit: Option<Limit>,
    /// State of the lock after it.
    pub after: Standing,
}

/// Kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// It was granted.
    Granted,
    /// An acquire waits for it.
    Queued,
    /// A waiter left without a grant.
    Withdrawn,
    /// A hold was released, or its session ended.
    Released,
    /// A hold expired.
    Expired,
    /// A hold was gone before its time.
    Lost(Loss),
    /// An operator took a hold away, or removed a waiter.
    Forced,
    /// A holder changed its value.
    ValueChanged,
    /// A holder made its exclusive hold a shared one.
    Downgraded,
    /// A holder gave some of its permits back.
    PermitsReduced,
    /// The semaphore's limit was replaced.
    LimitChanged,
    /// An operator asked a holder to release it.
    ReleaseRequested,
}

/// State of a lock after an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The mode in which it is held; `None` while it is free.
    pub mode: Option<Mode>,
    /// Number of holders.
    pub holder_count: u64,
    /// Number of waiters.
    pub waiter_count: u64,
}

/// Leader of the election of a name: the holder of its exclusive lock.
#[derive(Clone, Debug, PartialEq)]
pub struct Leader(pub Arc<HoldView>);

impl Leader {
    /// Returns the leader by the view of a lock; `None` if the hold has expired, even during its lock-delay.
    pub fn of(view: &NameView) -> Option<Self> {
        let HolderView::Ours(hold) = view.holders.first()? else {
            return None;
        };
        let leads = hold.mode == Mode::Exclusive && !hold.is_over();
        leads.then(|| Self(Arc::new((**hold).clone())))
    }

    /// Returns the term's token.
    pub fn token(&self) -> FencingToken {
        self.0.token
    }

    /// Returns the value that it proclaims.
    pub fn value(&self) -> &Value {
        &self.0.value
    }
}
