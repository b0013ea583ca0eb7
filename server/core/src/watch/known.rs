//! View of a mirrored lock, and the time at which the mirror has to look at it again.

use std::{sync::Arc, time::Duration};

use super::{
    event::Standing,
    mirrored::{Held, LOOK_EVERY, Mirrored},
};
use crate::{
    mode::Mode,
    time::Moment,
    view::{HOLDERS_SHOWN, HoldView, HolderView, NameView},
};

/// Time after the end of a hold at which the mirror looks at it: the store rounds up to the millisecond.
const GRACE: Duration = Duration::from_millis(2);
/// Shortest pause between two looks at a name.
const PAUSE: Duration = Duration::from_millis(5);

impl Mirrored {
    /// Returns when to look at it; `None` if nothing is known of it, so that it may be forgotten.
    pub(super) fn due(&self, now: Moment) -> Option<Moment> {
        if self.suspect.is_some() {
            return Some(now);
        }
        let holds = self.holds.values().map(|held| match held.is_over {
            true => Some(held.ends.here.after(held.hold.lock_delay)),
            false => Some(held.ends.here),
        });
        let is_uncertain = |held: &Held| !held.is_certain && !held.is_over;
        // Waiters whose coordinators all died also end unreported.
        let needs_polling =
            self.waiter_count > 0 || self.unseen > 0 || self.holds.values().any(is_uncertain);
        let foreign = self.foreign.map(|ends| ends.map(|ends| ends.here));
        let closed = self.closed_until.map(Some);
        holds
            .chain(foreign)
            .chain(closed)
            .chain(needs_polling.then_some(None))
            .map(|ends| ends.map_or(now.after(LOOK_EVERY), |ends| ends.after(GRACE)))
            .min()
            .map(|due| due.max(now.after(PAUSE)))
    }

    /// Returns its view, without waiters.
    pub(super) fn view(&self, now: Moment) -> NameView {
        let mut holders: Vec<HolderView> = self
            .standing_holds()
            .take(HOLDERS_SHOWN)
            .map(|held| {
                let expires_in = now.until(held.ends.here);
                let hold = HoldView {
                    expires_in,
                    ..(*held.hold).clone()
                };
                HolderView::Ours(Box::new(hold))
            })
            .collect();
        if let Some(ends) = self.foreign {
            let expires_in = ends.map(|ends| now.until(ends.here));
            holders.push(HolderView::Foreign { expires_in });
        }
        let over = self.holds.values().filter(|held| held.is_over);
        let closed_until = over
            .map(|held| held.ends.here.after(held.hold.lock_delay))
            .max();
        NameView {
            holders,
            holder_count: self.standing().holder_count,
            closed_for: self
                .closed_until
                .max(closed_until)
                .map(|until| now.until(until)),
            limit: self.limit,
            permits_taken: self.permits_taken,
            token: self.token,
            waiters: Vec::new(),
            waiter_count: self.waiter_count,
        }
    }

    /// Returns its exclusive hold, unless that is foreign.
    pub(super) fn exclusive(&self) -> Option<&Arc<HoldView>> {
        let held = self.standing_holds().next()?;
        (held.hold.mode == Mode::Exclusive).then_some(&held.hold)
    }

    pub(super) fn standing_holds(&self) -> impl Iterator<Item = &Held> {
        self.holds.values().filter(|held| !held.is_over)
    }

    pub(super) fn standing(&self) -> Standing {
        let foreign = self.foreign.map(|_| Mode::Exclusive);
        Standing {
            mode: self
                .standing_holds()
                .next()
                .map(|held| held.hold.mode)
                .or(foreign),
            holder_count: self.standing_holds().count() as u64
                + self.unseen
                + u64::from(self.foreign.is_some()),
            waiter_count: self.waiter_count,
        }
    }
}
