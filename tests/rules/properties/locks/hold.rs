//! Hold of one name as its client may believe in it, its grant, and the lock-delay that it leaves behind.

use std::time::Duration;

use leasehold_core::{id::FencingToken, mode::Mode, name::ClientName, time::StoreTime};

use crate::locks::{history::Owner, steps::Ask};

/// A hold, and for how long it may be believed in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hold {
    pub(crate) owner: Owner,
    pub(crate) token: FencingToken,
    pub(crate) mode: Mode,
    pub(crate) coordinator: usize,
    pub(crate) from: StoreTime,
    pub(crate) until: StoreTime,
    /// The time for which the lock stays closed after an unclean end.
    pub(crate) lock_delay: Duration,
    pub(crate) count: u32,
    /// The length of its value in bytes.
    pub(crate) value: usize,
    /// Whether it was found to be over, when its value and its client's name were removed.
    pub(crate) is_anonymous: bool,
    /// Whether it came from the queue, and its coordinator has given no sign since that it knows of it.
    pub(crate) fresh: bool,
}

impl Hold {
    pub(crate) fn over(&self) -> StoreTime {
        self.until.after(self.lock_delay)
    }

    /// Returns what may be seen of its client's name.
    pub(crate) fn client_name(&self) -> ClientName {
        if self.is_anonymous {
            ClientName::default()
        } else {
            self.owner.client_name()
        }
    }

    /// Its coordinator has shown that it knows of it.
    pub(crate) fn confirm(&mut self, by: usize, at: StoreTime, ttl: Duration, ask: Ask) {
        self.until = at.after(ttl);
        self.lock_delay = ask.lock_delay;
        self.coordinator = by;
        self.fresh = false;
    }
}

/// Lock-delay that an unclean end leaves behind. It has no holder, but keeps taken what the hold had taken; that of an
/// exclusive hold keeps out every caller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ghost {
    pub(crate) owner: Owner,
    pub(crate) mode: Mode,
    pub(crate) until: StoreTime,
}

/// A grant that was made.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    pub(crate) hold: Hold,
    /// The holds that were believed in at that moment.
    pub(crate) beside: Vec<Hold>,
    /// The modes that lock-delays kept taken at that moment: those of ghosts, and of holds that have run out.
    pub(crate) closed: Vec<Mode>,
}
