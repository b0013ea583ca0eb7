//! Inputs and outputs of the contended names.

use std::{sync::Arc, time::Duration};

use crate::{
    command::{Op, ReleaseRequest, Stamped, WakeUp},
    failure::StoreError,
    id::{FencingToken, OwnerId},
    name::LockName,
    session::{CommandId, RegistryEvent, TrackedWait},
    time::Moment,
};

/// Something that happens to contended names.
#[derive(Clone, Debug)]
pub enum Input {
    /// An acquire waits.
    Waits(TrackedWait),
    /// An acquire waits no more.
    Gone {
        /// The lock.
        name: LockName,
        /// The waiter.
        owner: OwnerId,
    },
    /// A name may come free after a while.
    Recheck {
        /// The lock.
        name: LockName,
        /// The time until then.
        after: Duration,
    },
    /// More waiters of a name can be granted it than one command grants, at whatever coordinators they are.
    Look {
        /// The lock.
        name: LockName,
    },
    /// Another coordinator has done something that concerns this one.
    WakeUp(WakeUp),
    /// The store has answered a command.
    Answered(CommandId, Result<Stamped, StoreError>),
    /// The store can be reached again.
    StoreUp,
}

/// Something that a driver does for contended names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Output {
    /// Sends a command to the store. Commands to the same lock arrive there in this order.
    Store {
        /// Identifies the command's answer.
        id: CommandId,
        /// The lock.
        name: LockName,
        /// The operation.
        op: Op,
    },
    /// Tell the task that has this owner id here.
    Tell(OwnerId, RegistryEvent),
    /// Ask the session that holds this owner id here, for an operator, to release the grant with this token.
    Ask(OwnerId, FencingToken, Arc<ReleaseRequest>),
    /// Hand on a grant that no task here knows of.
    Discard(LockName, OwnerId),
}

/// The owner ids that a coordinator knows.
pub trait Owners {
    /// Returns whether the owner id is known at all.
    fn knows(&self, owner: &OwnerId) -> bool;

    /// Returns whether the owner id waits, or may.
    fn waits(&self, owner: &OwnerId) -> bool;
}

/// Circumstances of a transition.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The time, by the clock of the driver's timer.
    pub now: Moment,
    /// The owner ids of the coordinator.
    pub owners: &'a dyn Owners,
}
