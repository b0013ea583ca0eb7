//! One operation as it is carried out: its caller, its time, and the events it causes.

use std::{num::NonZeroU32, time::Duration};

use crate::{
    command::{Caller, Handed, Reply},
    hold::Hold,
    id::OwnerId,
    time::StoreTime,
    view::HoldView,
    watch::{Change, Telling},
};

/// Operation in progress.
pub(super) struct Step<'a> {
    pub(super) caller: &'a Caller,
    pub(super) now: StoreTime,
    /// The changes to report, while there are watchers.
    pub(super) telling: Option<&'a mut Telling>,
}

impl Step<'_> {
    /// Reports a change to watchers.
    pub(super) fn tell(&mut self, change: impl FnOnce() -> Change) {
        if let Some(telling) = &mut self.telling {
            telling.changes.push(change());
        }
    }

    /// Returns the view of a present hold.
    pub(super) fn seen(&self, hold: &Hold) -> Box<HoldView> {
        Box::new(hold.view(self.now))
    }
}

/// Returns the view of a hold that is over.
pub(super) fn over(hold: &Hold) -> Box<HoldView> {
    Box::new(HoldView {
        expires_in: Duration::ZERO,
        ..hold.view(hold.ends_at)
    })
}

/// Grants to waiters that one command made.
#[derive(Default)]
pub(super) struct HandedOn {
    pub(super) to: Vec<Handed>,
    pub(super) more: bool,
}

impl HandedOn {
    /// Takes out the grant to the caller itself, which the answer reports.
    pub(super) fn take(&mut self, owner: &OwnerId) -> Option<Reply> {
        let mine = self.to.iter().position(|handed| handed.owner == *owner)?;
        let Handed { token, permits, .. } = self.to.remove(mine);
        let permits = permits.map(NonZeroU32::get);
        Some(Reply::Granted { token, permits })
    }
}

/// Returns a reply without grants to waiters.
pub(super) fn alone(reply: Reply) -> (Reply, HandedOn) {
    (reply, HandedOn::default())
}
