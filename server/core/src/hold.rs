//! Who holds a lock.

use std::time::Duration;

use crate::{
    id::{CoordinatorId, FencingToken, OwnerId, SessionId},
    name::{ClientName, Value},
    time::StoreTime,
    view::HoldView,
};

/// What the lock key holds, until it expires.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) holder: KeyHolder,
    pub(crate) expires_at: StoreTime,
}

#[derive(Clone, Debug)]
pub(crate) enum KeyHolder {
    /// A grant.
    Held(Box<Hold>),
    /// Nobody: the lock-delay of an unclean end runs.
    Closed,
}

#[derive(Clone, Debug)]
pub(crate) struct Hold {
    pub(crate) owner: OwnerId,
    pub(crate) session: Option<SessionId>,
    pub(crate) client_name: ClientName,
    pub(crate) coordinator: CoordinatorId,
    pub(crate) token: FencingToken,
    pub(crate) acquired_at: StoreTime,
    pub(crate) lock_delay: Duration,
    /// False for a hand-off to another coordinator until that has confirmed it.
    pub(crate) confirmed: bool,
    pub(crate) value: Value,
}

impl Hold {
    /// For how long the name stays closed if the hold ends uncleanly: not at all before it was confirmed, since its client
    /// has not heard of it.
    pub(crate) fn delay(&self) -> Duration {
        if self.confirmed {
            self.lock_delay
        } else {
            Duration::ZERO
        }
    }

    /// What may be seen of it while its key lasts for so long.
    pub(crate) fn view(&self, lasts: Duration) -> HoldView {
        HoldView {
            session: self.session,
            client_name: self.client_name.clone(),
            coordinator: self.coordinator.clone(),
            token: self.token,
            acquired_at: self.acquired_at,
            expires_in: lasts.saturating_sub(self.delay()),
            lock_delay: self.delay(),
            value: self.value.clone(),
        }
    }
}
