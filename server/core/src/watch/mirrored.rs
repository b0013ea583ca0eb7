//! Mirror of one lock.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::event::{Change, Event, EventKind};
use crate::{
    command::{CLAIM_TIME, Loss},
    id::FencingToken,
    mode::{Limit, Mode},
    name::LockName,
    time::{Moment, StoreTime},
    view::{HoldView, HolderView, NameView, WaiterView},
};

/// Interval between looks at a name on which something can end unreported, at an unknown time.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Pause before the next look at a hold that was seen with no time left.
const SHORTLY: Duration = Duration::from_millis(100);

/// Known state of a lock.
#[derive(Debug, Default)]
pub(super) struct Mirrored {
    pub(super) holds: BTreeMap<FencingToken, Held>,
    /// A foreign key, and when it ends, if it does.
    pub(super) foreign: Option<Option<Ends>>,
    /// Holders that no look has shown.
    pub(super) unseen: u64,
    pub(super) waiter_count: u64,
    pub(super) closed_until: Option<Moment>,
    pub(super) limit: Option<Limit>,
    pub(super) permits_taken: u64,
    pub(super) token: Option<FencingToken>,
    /// Set if a hold may have ended, to the kind of that end: a look will show it.
    pub(super) suspect: Option<EventKind>,
}

#[derive(Debug)]
pub(super) struct Held {
    pub(super) hold: Arc<HoldView>,
    /// Time of its end unless it was renewed: the store reports only renewals that shorten a hold.
    pub(super) ends: Ends,
    /// Whether somebody finds out soon if it is gone before: a session does, with its next renewal, once it has confirmed a
    /// hand-off.
    pub(super) is_certain: bool,
    /// Whether at most its lock-delay is left.
    pub(super) is_over: bool,
}

/// End of a hold or lock-delay, by both clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub(super) store: StoreTime,
    pub(super) here: Moment,
}

/// Time of a report: the store's, and that of its arrival.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heard {
    pub(super) at: StoreTime,
    pub(super) now: Moment,
}

impl Heard {
    fn ends_in(self, time: Duration) -> Ends {
        Ends {
            store: self.at.after(time),
            here: self.now.after(time),
        }
    }
}

/// Events to be sent, all of one name.
pub(super) struct Events<'a> {
    pub(super) name: &'a LockName,
    pub(super) list: Vec<Event>,
}

impl Mirrored {
    /// Applies one change.
    pub(super) fn change(&mut self, change: Change, heard: Heard, events: &mut Events<'_>) {
        match change {
            Change::Granted(hold) => self.granted(*hold, heard, events),
            Change::Queued { waiter, position } => {
                let mut event = self.event(EventKind::Queued, heard.at, events);
                event.waiter = Some((*waiter, Some(position)));
                events.list.push(event);
            }
            Change::Withdrawn(waiter) => {
                self.left(*waiter, EventKind::Withdrawn, heard, events);
            }
            Change::ForcedWaiter(waiter) => self.left(*waiter, EventKind::Forced, heard, events),
            Change::ForcedHolder(hold) => {
                self.discount(Some(&hold));
                self.gone(Some(*hold), EventKind::Forced, heard.at, None, events);
            }
            Change::Released { hold, closed_for } => {
                let hold = hold.map(|hold| *hold).or_else(|| self.the_one());
                if closed_for.is_none() {
                    self.discount(hold.as_ref());
                }
                let closed_until = closed_for.map(|time| heard.now.after(time));
                self.closed_until = self.closed_until.max(closed_until);
                self.gone(hold, EventKind::Released, heard.at, closed_for, events);
            }
            Change::Expired(hold) => {
                self.discount(Some(&hold));
                self.gone(Some(*hold), EventKind::Expired, heard.at, None, events);
            }
            Change::Lost {
                hold: Some(hold), ..
            } => {
                if let Some(held) = self.holds.get_mut(&hold.token)
                    && !held.is_over
                {
                    held.is_over = true;
                    let hold = HolderView::Ours(hold);
                    self.tell(EventKind::Expired, heard.at, Some(hold), events);
                }
            }
            Change::Lost { hold: None, loss } => self.suspect = Some(EventKind::Lost(loss)),
            Change::Doubtful => self.suspect = Some(EventKind::Released),
            Change::Forced(Some(hold)) => {
                self.closed_until = None;
                self.permits_taken = 0;
                self.gone(Some(*hold), EventKind::Forced, heard.at, None, events);
            }
            Change::Forced(None) => {
                let foreign = self.foreign.take();
                self.closed_until = None;
                self.permits_taken = 0;
                self.holds.clear();
                let foreign = foreign.map(|_| HolderView::Foreign { expires_in: None });
                self.tell(EventKind::Forced, heard.at, foreign, events);
            }
            Change::ValueChanged(hold) => {
                self.changed(*hold, Some(EventKind::ValueChanged), heard, events)
            }
            Change::Downgraded(hold) => {
                self.changed(*hold, Some(EventKind::Downgraded), heard, events)
            }
            Change::Reduced { hold, by } => {
                self.permits_taken = self.permits_taken.saturating_sub(by.into());
                self.changed(*hold, Some(EventKind::PermitsReduced), heard, events);
            }
            Change::ReleaseRequested(hold) => {
                self.changed(*hold, Some(EventKind::ReleaseRequested), heard, events);
            }
            Change::Resumed(hold) | Change::Shortened(hold) => {
                self.changed(*hold, None, heard, events);
            }
            Change::LimitChanged(limit) => {
                self.limit = Some(limit);
                let mut event = self.event(EventKind::LimitChanged, heard.at, events);
                event.limit = Some(limit);
                events.list.push(event);
            }
        }
    }

    /// Reports that a waiter left the queue without a grant.
    fn left(&self, waiter: WaiterView, kind: EventKind, heard: Heard, events: &mut Events<'_>) {
        let mut event = self.event(kind, heard.at, events);
        event.waiter = Some((waiter, None));
        events.list.push(event);
    }

    pub(super) fn set_waiter_count(&mut self, count: u64) {
        self.waiter_count = count;
    }

    fn granted(&mut self, hold: HoldView, heard: Heard, events: &mut Events<'_>) {
        // Holds that exclude it have ended unreported: they expired or were deleted.
        let stays = |other: &HoldView| {
            matches!(
                (hold.mode, other.mode),
                (Mode::Shared, Mode::Shared) | (Mode::Semaphore(_), Mode::Semaphore(_))
            )
        };
        let gone: Vec<FencingToken> = self
            .holds
            .iter()
            .filter(|(_, held)| !stays(&held.hold))
            .map(|(token, _)| *token)
            .collect();
        for token in gone {
            self.vanished(token, heard, events);
        }
        self.look_at_foreign(None, heard, events);
        if hold.mode == Mode::Exclusive {
            self.closed_until = None;
            self.unseen = 0;
        }
        self.permits_taken += u64::from(hold.mode.permits());
        self.limit = hold.mode.limit();
        self.token = self.token.max(Some(hold.token));
        self.put(hold.clone(), heard);
        let hold = HolderView::Ours(Box::new(hold));
        self.tell(EventKind::Granted, heard.at, Some(hold), events);
    }

    /// Replaces a hold by its changed state, and reports the change unless the hold is over.
    fn changed(
        &mut self,
        hold: HoldView,
        kind: Option<EventKind>,
        heard: Heard,
        events: &mut Events<'_>,
    ) {
        let known = self.holds.get(&hold.token);
        let is_over = known.is_some_and(|held| held.is_over);
        if known.is_none() {
            if self.unseen == 0 {
                // Its grant was not reported: a look tells of that, in the order of the tokens.
                self.suspect.get_or_insert(EventKind::Expired);
                return;
            }
            self.unseen -= 1;
        }
        self.put(hold.clone(), heard);
        if let Some(held) = self.holds.get_mut(&hold.token) {
            // If it expired just now, a look will show it.
            held.is_over = is_over;
        }
        if let Some(kind) = kind
            && !is_over
        {
            let hold = HolderView::Ours(Box::new(hold));
            self.tell(kind, heard.at, Some(hold), events);
        }
    }

    fn put(&mut self, hold: HoldView, heard: Heard) {
        let is_new = heard.at < hold.acquired_at.after(CLAIM_TIME);
        // It may be about to expire, or its key may have lost its expiry.
        let ends_in = match hold.expires_in {
            Duration::ZERO if !hold.is_over() => SHORTLY,
            time => time,
        };
        let held = Held {
            ends: heard.ends_in(ends_in),
            is_certain: hold.session.is_some() && !(is_new && hold.expires_in <= CLAIM_TIME),
            is_over: hold.is_over(),
            hold: Arc::new(hold),
        };
        self.holds.insert(held.hold.token, held);
    }

    /// Notes the end of a hold, and reports it unless it was reported before.
    fn gone(
        &mut self,
        hold: Option<HoldView>,
        kind: EventKind,
        at: StoreTime,
        closed_for: Option<Duration>,
        events: &mut Events<'_>,
    ) {
        let mut at = at;
        if let Some(hold) = &hold {
            match self.holds.remove(&hold.token) {
                Some(held) if held.is_over => return,
                // The mirror notices an expiry some time later.
                Some(held) if kind == EventKind::Expired => at = at.min(held.ends.store),
                Some(_) => {}
                // Watchers have not heard of it: its grant was not reported, or it ended before a look found it.
                None if self.unseen == 0 => return,
                None => self.unseen -= 1,
            }
        }
        let holder = hold.map(|hold| HolderView::Ours(Box::new(hold)));
        let mut event = self.event(kind, at, events);
        event.holder = holder;
        event.closed_for = closed_for;
        events.list.push(event);
    }

    /// Notes that a hold has ended unreported.
    fn vanished(&mut self, token: FencingToken, heard: Heard, events: &mut Events<'_>) {
        let Some(held) = self.holds.remove(&token) else {
            return;
        };
        self.discount(Some(&held.hold));
        if held.is_over {
            return;
        }
        let (kind, at) = match self.suspect {
            Some(kind) => (kind, heard.at),
            None if held.is_certain && heard.at < held.ends.store => {
                (EventKind::Lost(Loss::Deleted), heard.at)
            }
            None => (EventKind::Expired, held.ends.store.min(heard.at)),
        };
        let hold = HoldView {
            expires_in: Duration::ZERO,
            ..(*held.hold).clone()
        };
        self.tell(kind, at, Some(HolderView::Ours(Box::new(hold))), events);
    }

    /// Applies the view of a look.
    pub(super) fn look(&mut self, view: NameView, heard: Heard, events: &mut Events<'_>) {
        let is_complete = view.holder_count <= view.holders.len() as u64;
        let mut seen = Vec::with_capacity(view.holders.len());
        let mut foreign = None;
        for holder in view.holders {
            match holder {
                HolderView::Ours(hold) => seen.push(*hold),
                HolderView::Foreign { expires_in } => {
                    foreign = Some(expires_in.map(|time| heard.ends_in(time)));
                }
            }
        }
        if is_complete {
            let gone: Vec<FencingToken> = self
                .holds
                .keys()
                .filter(|token| !seen.iter().any(|hold| hold.token == **token))
                .copied()
                .collect();
            for token in gone {
                self.vanished(token, heard, events);
            }
        }
        // Of holds that were not shown, it is only known that others end first.
        for held in self.holds.values_mut().filter(|_| !is_complete) {
            let later = heard.ends_in(LOOK_EVERY);
            held.ends.here = held.ends.here.max(later.here);
        }
        self.suspect = None;
        self.waiter_count = view.waiter_count;
        self.closed_until = view.closed_for.map(|time| heard.now.after(time));
        self.limit = view.limit;
        self.permits_taken = view.permits_taken;
        self.token = view.token;
        self.look_at_foreign(foreign, heard, events);
        // The view has those first that expire first. Grants are reported in their own order, that of the tokens.
        seen.sort_unstable_by_key(|hold| hold.token);
        for hold in seen {
            let before = self.holds.get(&hold.token).map(|held| held.is_over);
            self.put(hold.clone(), heard);
            let (now_over, at) = (hold.is_over(), hold.acquired_at);
            let hold = HolderView::Ours(Box::new(hold));
            match before {
                Some(false) if now_over => {
                    self.tell(EventKind::Expired, heard.at, Some(hold), events)
                }
                None if !now_over => self.tell(EventKind::Granted, at, Some(hold), events),
                _ => {}
            }
        }
        self.unseen = view.holder_count.saturating_sub(self.holds.len() as u64);
        if self.foreign.is_some() {
            self.unseen = 0;
        }
    }

    fn look_at_foreign(
        &mut self,
        foreign: Option<Option<Ends>>,
        heard: Heard,
        events: &mut Events<'_>,
    ) {
        let before = std::mem::replace(&mut self.foreign, foreign);
        let holder = |expires_in| Some(HolderView::Foreign { expires_in });
        match (before, foreign) {
            (None, Some(ends)) => {
                let left = ends.map(|ends| heard.at.until(ends.store));
                self.tell(EventKind::Granted, heard.at, holder(left), events);
            }
            (Some(Some(ends)), None) if ends.store <= heard.at => {
                self.tell(
                    EventKind::Expired,
                    ends.store,
                    holder(Some(Duration::ZERO)),
                    events,
                );
            }
            (Some(_), None) => {
                self.tell(EventKind::Released, heard.at, holder(None), events);
            }
            _ => {}
        }
    }

    /// Returns the only hold, if there is exactly one.
    fn the_one(&self) -> Option<HoldView> {
        let held = self.standing_holds().next()?;
        Some((*held.hold).clone())
    }

    fn discount(&mut self, hold: Option<&HoldView>) {
        let permits = hold.map_or(0, |hold| u64::from(hold.mode.permits()));
        self.permits_taken = self.permits_taken.saturating_sub(permits);
    }

    fn tell(
        &self,
        kind: EventKind,
        at: StoreTime,
        holder: Option<HolderView>,
        events: &mut Events<'_>,
    ) {
        let mut event = self.event(kind, at, events);
        event.holder = holder;
        events.list.push(event);
    }

    fn event(&self, kind: EventKind, at: StoreTime, events: &Events<'_>) -> Event {
        Event {
            name: events.name.clone(),
            at,
            kind,
            holder: None,
            waiter: None,
            closed_for: None,
            limit: None,
            after: self.standing(),
        }
    }
}
