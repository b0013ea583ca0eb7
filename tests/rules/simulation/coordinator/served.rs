//! Session at a coordinator, from the first message of its stream on, with what it is served with.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use leasehold_core::{
    deadlock::{BlockedWait, Deadlock},
    id::{Actor, OwnerId},
    name::LockName,
    session::{Phase, RegistryEvent, RequestId, Session},
};
use leasehold_proto::v1::SessionOpen;
use leasehold_server::{
    convert::{Resumptions, session::Surroundings, stream::Kind},
    coordinator::{
        ends::Endable,
        inbox::{Inbox, InboxEvent},
    },
};

/// A stream whose session is not open yet, with what its `open` has said so far.
#[derive(Default)]
pub(super) struct Opening {
    pub(super) first: Option<(RequestId, SessionOpen)>,
    pub(super) resume: Resumptions,
}

/// A session and what it is served with.
pub(crate) struct Served {
    /// `None` until `open` has come.
    pub(crate) session: Option<Session>,
    pub(super) opening: Opening,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) surroundings: Option<Surroundings>,
    /// Its waiters that were announced.
    pub(crate) tracked: BTreeMap<OwnerId, Tracked>,
    pub(crate) kind: Kind,
    /// Its client's name.
    pub(crate) client: String,
    /// Holds that it has told its client are lost.
    pub(crate) lost: BTreeSet<OwnerId>,
    /// `None` until `open` has come.
    pub(crate) endable: Option<Endable>,
}

/// A waiter that was announced.
pub(crate) struct Tracked {
    pub(crate) name: LockName,
    pub(crate) actor: Actor,
    /// Whether the detector of deadlocks knows of it.
    pub(crate) is_watched: bool,
}

impl Served {
    pub(super) fn new(kind: Kind) -> Self {
        Self {
            session: None,
            opening: Opening::default(),
            inbox: Arc::default(),
            surroundings: None,
            tracked: BTreeMap::new(),
            kind,
            client: String::new(),
            lost: BTreeSet::new(),
            endable: None,
        }
    }

    /// Returns its waits that the detector of deadlocks knows of.
    pub(crate) fn blocked(&self) -> impl Iterator<Item = BlockedWait> {
        let waits = self.tracked.iter().filter(|(_, wait)| wait.is_watched);
        let session = self.surroundings.as_ref().map(|it| it.session);
        waits.filter_map(move |(ticket, wait)| {
            Some(BlockedWait {
                session: session?,
                actor: wait.actor,
                ticket: *ticket,
                name: wait.name.clone(),
            })
        })
    }

    /// Aborts one of its waits because of a deadlock.
    pub(crate) fn abort(&mut self, deadlock: &Deadlock) {
        let ticket = deadlock.victim.ticket;
        let wait = self.tracked.get_mut(&ticket).filter(|it| it.is_watched);
        if let Some(wait) = wait {
            wait.is_watched = false;
            let event = RegistryEvent::Deadlocked(Box::new(deadlock.clone()));
            self.inbox.put(InboxEvent::Registry(ticket, event));
        }
    }

    /// Returns whether messages of the client are taken in now, or thrown away: not while it resumes.
    pub(crate) fn hears(&self) -> bool {
        let phase = self.session.as_ref().map(Session::phase);
        phase != Some(Phase::Resuming)
    }
}
