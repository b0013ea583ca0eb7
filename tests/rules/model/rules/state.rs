//! State of the model: the lock, the clients, and notes for the checks.

use leasehold_core::{id::OwnerId, lock::LockState, mode::Mode, time::StoreTime};

use super::COORDINATORS;
use crate::common::{self, owner};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) lock: LockState,
    /// The store's time (s).
    pub(super) at: i64,
    /// Seconds since the start.
    pub(super) elapsed: u8,
    pub(super) has_stepped: bool,
    pub(super) dead: Option<usize>,
    pub(super) floors: [i64; COORDINATORS],
    pub(super) clients: Vec<Client>,
    /// The largest token of any grant.
    pub(super) largest: i64,
    /// Clients that wait, in the order in which the store saw them.
    pub(super) order: Vec<usize>,
    /// When each coordinator last showed that its waiters live (s since the start).
    pub(super) refreshed: [u8; COORDINATORS],
    /// When the record of the newest token ends, in the variant in which it ends too soon.
    pub(super) record_ends: i64,
    /// Whether the last step confirmed a hand-off.
    pub(super) was_confirmed: bool,
    /// The property that the last step broke.
    pub(super) broken: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Client {
    pub(super) begun: u8,
    pub(super) phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    Idle,
    Waiting,
    /// It was handed the lock at another coordinator, and its own has to confirm it.
    Handed(i64),
    /// It holds the lock with this token, and believes in it until then (s since the start).
    Holds(i64, u8),
    /// It has set the lock, and not yet its expiry.
    WithoutExpiry(i64),
    /// It has seen that it still holds the lock, and will delete it.
    Compared,
}

impl State {
    pub(super) fn now(&self) -> StoreTime {
        StoreTime::from_micros(self.at * 1_000_000)
    }

    pub(super) fn owner(&self, client: usize) -> OwnerId {
        owner(client, self.clients[client].begun)
    }

    pub(super) fn lives(&self, coordinator: usize) -> bool {
        self.dead != Some(coordinator)
    }

    /// Returns the owner ids that hold the lock in the store now, with their modes.
    pub(super) fn holders(&self) -> Vec<(OwnerId, Mode)> {
        common::holders(&self.lock, self.now())
    }
}
