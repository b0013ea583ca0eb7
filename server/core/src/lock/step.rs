//! One operation as it is carried out: its caller, its time, and the events it causes.

use std::time::Duration;

use crate::{
    command::{Caller, Handed, Reply},
    hold::Hold,
    id::{FencingToken, OwnerId},
    time::StoreTime,
    view::HoldView,
    watch::{Change, Telling},
};

/// An operation on its way.
pub(super) struct Step<'a> {
    pub(super) caller: &'a Caller,
    pub(super) now: StoreTime,
    /// Where it is told what changes, while anybody watches.
    pub(super) telling: Option<&'a mut Telling>,
}

impl Step<'_> {
    /// Tells a change to whoever watches.
    pub(super) fn tell(&mut self, change: impl FnOnce() -> Change) {
        if let Some(telling) = &mut self.telling {
            telling.changes.push(change());
        }
    }

    /// A hold that stands, for others to see.
    pub(super) fn seen(&self, hold: &Hold) -> Box<HoldView> {
        Box::new(hold.view(self.now))
    }
}

/// A hold that is over, for others to see.
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
    /// Takes the grant to the one that asks out, who is told of it by the answer itself.
    pub(super) fn take(&mut self, owner: &OwnerId) -> Option<FencingToken> {
        let mine = self.to.iter().position(|handed| handed.owner == *owner)?;
        Some(self.to.remove(mine).token)
    }
}

/// A reply with which nothing was handed on.
pub(super) fn alone(reply: Reply) -> (Reply, HandedOn) {
    (reply, HandedOn::default())
}
