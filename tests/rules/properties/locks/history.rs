//! Record of the commands on each name, with the replies to them.

use std::time::Duration;

use leasehold_core::{
    command::{End, One, Reply},
    id::{Actor, FencingToken, OwnerId, SessionId},
    name::ClientName,
    time::StoreTime,
    view::NameView,
};

use crate::locks::steps::Ask;

/// An owner id, by the number of its acquire. They are ordered as their bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Owner(pub(crate) usize);

impl Owner {
    pub(crate) fn id(self) -> OwnerId {
        OwnerId::from_bytes((self.0 as u128).to_be_bytes())
    }

    pub(crate) fn of(id: &OwnerId) -> Self {
        Self(usize::try_from(u128::from_be_bytes(*id.as_bytes())).unwrap())
    }

    pub(crate) fn session(self) -> SessionId {
        SessionId::from_bytes((self.0 as u128 + 1).to_be_bytes())
    }

    /// Returns the client's name of the owner id. Each has its own, so that views tell them apart.
    pub(crate) fn client_name(self) -> ClientName {
        ClientName::parse(&self.0.to_string()).unwrap()
    }

    fn called(name: &ClientName) -> Self {
        Self(name.as_str().parse().unwrap())
    }

    /// Returns the actor of an acquire under this owner id.
    pub(crate) fn actor(self) -> Actor {
        Actor::new(self.0 as u64 % 3)
    }

    /// Returns the hold count of a hold that is resumed under this owner id.
    pub(crate) fn count(self) -> u32 {
        self.0 as u32 % 4
    }
}

/// An acquire, once for all its repetitions; or what was resumed under a new owner id.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) name: usize,
    pub(crate) by: usize,
    pub(crate) actor: Actor,
    pub(crate) ask: Ask,
}

/// Owner ids of a hold or place that a stream resumes, and the one that replaces them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Resumption {
    pub(crate) from: Owner,
    pub(crate) tried: Option<Owner>,
    pub(crate) next: Owner,
}

impl Resumption {
    /// Returns all owner ids that it may be under.
    pub(crate) fn former(self) -> impl Iterator<Item = Owner> {
        [self.from].into_iter().chain(self.tried)
    }
}

/// Target of a resume.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Found {
    Hold(Owner),
    Place(Owner),
    Nothing,
}

/// Command about a name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Deed {
    /// Whether it is to wait may be another than before.
    Acquire(Owner, bool),
    Renew(Owner, Duration),
    Release(Owner, End),
    /// A refresh, with the waiter that it asks after.
    Refresh(Option<Owner>),
    Force,
    ForceOne(One),
    /// A request to release it, to all holders or to the one with this token.
    RequestRelease(Option<FencingToken>),
    Downgrade(Owner),
    Reduce(Owner, u32),
    SetCount(Owner, u32),
    SetValue(Owner, usize),
    Resume(Resumption),
}

/// A command that was carried out.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) name: usize,
    pub(crate) by: usize,
    pub(crate) at: StoreTime,
    /// The time for which the command asked the store to remember tokens, and owner ids that a resume replaced.
    pub(crate) memory: Duration,
    pub(crate) deed: Deed,
    pub(crate) reply: Reply,
    pub(crate) handed: Vec<Handed>,
    pub(crate) more: bool,
    pub(crate) after: NameView,
}

/// A grant to a waiter that came with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Handed {
    pub(crate) owner: Owner,
    pub(crate) token: FencingToken,
    pub(crate) permits: Option<u32>,
    pub(crate) coordinator: usize,
    pub(crate) of_session: bool,
}

impl Event {
    /// Returns whether the name has no holder afterwards and no lock-delay keeps it closed.
    pub(crate) fn is_free(&self) -> bool {
        self.after.holders.is_empty() && self.after.closed_for.is_none()
    }

    /// Returns the waiters of the name afterwards, in order.
    pub(crate) fn waiters(&self) -> Vec<Owner> {
        let waiters = self.after.waiters.iter();
        waiters
            .map(|waiter| Owner::called(&waiter.client_name))
            .collect()
    }

    /// Returns the waiters that were handed the name, in order.
    pub(crate) fn handed_to(&self) -> Vec<Owner> {
        self.handed.iter().map(|handed| handed.owner).collect()
    }
}
