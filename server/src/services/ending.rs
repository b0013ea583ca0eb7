//! End of a session by an operator: a mark for all coordinators, and then a search for what the session may have left in the store.

use std::{collections::BTreeSet, time::Duration, vec};

use leasehold_core::{
    command::One,
    ended::{EndChange, EndedCount, MOST_ENDED},
    id::{Predecessors, SessionId},
    name::LockName,
    view::{HolderView, NameView},
};
use tokio::time::{Instant, sleep};

use super::{
    listing::{Listings, SHOWN_WAITERS},
    names,
};
use crate::{
    access::rules::{Granted, Permission, Place},
    coordinator::{Coordinator, marks::LOOK_INTERVAL},
    status::{Reason, Refusal},
};

/// Number of names that are listed at a time.
const PAGE: usize = 256;
/// Time that the coordinators are given to look at the marks and end the session; as long again, if none has ended any, or if the
/// store still has something of those that have ended.
const PATIENCE: Duration = LOOK_INTERVAL.saturating_mul(2);
/// Pause before the mark is looked at again.
const PAUSE: Duration = Duration::from_millis(100);
/// Most searches for what is left.
const MOST_PASSES: usize = 10;

/// End of one session.
pub(super) struct Ending {
    pub(super) id: SessionId,
    pub(super) coordinator: Coordinator,
    pub(super) listings: Listings,
}

/// A hold or waiter.
struct Part<'a> {
    one: One,
    session: Option<SessionId>,
    predecessors: &'a Predecessors,
}

/// A walk through all locks that the store has.
struct Walk<'a> {
    ending: &'a Ending,
    /// Those that were looked at.
    locks: vec::IntoIter<(LockName, NameView)>,
    /// The token of the next page.
    next: Option<String>,
}

impl Ending {
    /// Checks that the caller may end the session: that it may administer all locks, or at least all that the session has now,
    /// and all of the sessions that have resumed something from it.
    pub(super) async fn check(&self, granted: &Granted) -> Result<(), Refusal> {
        let is_permitted =
            |name: &str| granted.permits(Permission::Administer, Place::Either, name);
        if is_permitted("") {
            return Ok(());
        }
        let mut ended = BTreeSet::from([self.id]);
        loop {
            let known = ended.len();
            let (mut has_any, mut is_denied) = (false, false);
            let mut locks = self.locks();
            while let Some((name, view)) = locks.next().await? {
                ended.extend(self.parts(&view).filter_map(|part| part.session));
                let mut sessions = parts(&view).filter_map(|part| part.session);
                let has = sessions.any(|session| ended.contains(&session));
                has_any |= has;
                // Where not everything is shown, the session may be among the rest.
                let is_whole = view.holder_count <= view.holders.len() as u64
                    && view.waiter_count <= view.waiters.len() as u64;
                is_denied |= (has || !is_whole) && !is_permitted(name.as_str());
            }
            if is_denied || !has_any {
                break;
            }
            // Those that were found on the way may have locks on the pages before.
            if ended.len() == known {
                return Ok(());
            }
        }
        let why = "to end a session needs the permission `administer` on all locks, or on each that it, or a session that has resumed something from it, holds or waits for now";
        let refusal = Refusal::new(Reason::PermissionDenied, why);
        // Without the name of a lock that the caller may not see.
        Err(refusal
            .with("permission", Permission::Administer.as_str())
            .with("name", ""))
    }

    /// Ends the session. Returns what was ended.
    pub(super) async fn end(&self) -> Result<EndedCount, Refusal> {
        let before = self.mark().await?;
        // Here at once; other coordinators look at the marks.
        self.coordinator.ends().end(self.id);
        sleep(PATIENCE).await;
        let given_up = Instant::now() + PATIENCE;
        let mut counted = self.mark().await?;
        while counted == before && Instant::now() < given_up {
            sleep(PAUSE).await;
            counted = self.mark().await?;
        }
        // What a coordinator has counted is on its way out, and would count twice.
        let left = match counted != before && self.is_gone_soon().await? {
            true => EndedCount::default(),
            false => self.end_rest().await?,
        };
        // Once more, so that a store that has forgotten the mark in a fail-over has it.
        let after = self.mark().await?;
        // So would what a coordinator has counted since the search began.
        let counted = match left == EndedCount::default() {
            true => after,
            false => counted,
        };
        let ended = EndedCount {
            sessions: after.sessions.saturating_sub(before.sessions),
            holds: counted.holds.saturating_sub(before.holds),
            waiters: counted.waiters.saturating_sub(before.waiters),
        };
        Ok(ended.plus(left))
    }

    /// Marks the session for all coordinators. Returns what they have ended because of the mark so far.
    async fn mark(&self) -> Result<EndedCount, Refusal> {
        // As long as a session may have anything that its coordinator does not renew.
        let kept_for = self.coordinator.bounds().token_memory();
        let change = EndChange::Mark(self.id, kept_for);
        let marks = self.coordinator.store().ended_sessions(Some(change)).await;
        let Some(marks) = marks? else {
            return Err(Refusal::new(
                Reason::TooManyEnded,
                format!("{MOST_ENDED} sessions were ended in the last {kept_for:?}, and the store keeps no more marks; try again later"),
            )
            .with("limit", MOST_ENDED));
        };
        let mut marks = marks.into_iter().filter(|(id, _)| *id == self.id);
        Ok(marks.next().map(|(_, count)| count).unwrap_or_default())
    }

    /// Waits until the store has nothing of the session any more. Returns whether that came in time.
    async fn is_gone_soon(&self) -> Result<bool, Refusal> {
        let given_up = Instant::now() + PATIENCE;
        while self.is_in_store().await? {
            if Instant::now() >= given_up {
                return Ok(false);
            }
            sleep(PAUSE).await;
        }
        Ok(true)
    }

    /// Returns whether the store has anything of the session.
    async fn is_in_store(&self) -> Result<bool, Refusal> {
        let mut locks = self.locks();
        while let Some((_, view)) = locks.next().await? {
            if self.parts(&view).next().is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Ends what the store still has of the session, and of what others have resumed of it: their coordinators may be dead.
    /// Searches until nothing is found.
    async fn end_rest(&self) -> Result<EndedCount, Refusal> {
        let mut ended = EndedCount::default();
        for _ in 0..MOST_PASSES {
            let mut found = false;
            let mut locks = self.locks();
            while let Some((name, view)) = locks.next().await? {
                for Part { one, .. } in self.parts(&view) {
                    found = true;
                    let forced = names::force_release(&self.coordinator, &name, Some(one));
                    let (is_released, _) = forced.await?;
                    let counter = match one {
                        One::Holder(_) => &mut ended.holds,
                        One::Waiter(_) => &mut ended.waiters,
                    };
                    *counter += u32::from(is_released);
                }
            }
            if !found {
                return Ok(ended);
            }
        }
        Err(Refusal::new(
            Reason::StoreIndeterminate,
            "locks kept naming the session while it was ended; it is marked and ends at its coordinator, ask again to be sure",
        ))
    }

    /// Begins to walk through the locks.
    fn locks(&self) -> Walk<'_> {
        Walk {
            ending: self,
            locks: Vec::new().into_iter(),
            next: Some(String::new()),
        }
    }

    /// Returns what a view shows of the session, and of those that have resumed it.
    fn parts<'v>(&self, view: &'v NameView) -> impl Iterator<Item = Part<'v>> {
        let id = self.id;
        parts(view).filter(move |part| {
            part.session == Some(id) || part.predecessors.iter().any(|session| session == id)
        })
    }
}

impl Walk<'_> {
    /// Returns the next lock that is there, and a view of it.
    async fn next(&mut self) -> Result<Option<(LockName, NameView)>, Refusal> {
        let Ending {
            coordinator,
            listings,
            ..
        } = self.ending;
        loop {
            if let Some(lock) = self.locks.next() {
                return Ok(Some(lock));
            }
            let Some(token) = self.next.take() else {
                return Ok(None);
            };
            let page = coordinator.store().list("", &token, PAGE).await?;
            let page = page.map_err(|invalid| Refusal::field("page_token", invalid))?;
            let views = listings.views(coordinator, &page.names, SHOWN_WAITERS);
            let views = views.await?;
            let locks = page.names.into_iter().zip(views);
            let locks: Vec<_> = locks
                .filter_map(|(name, view)| Some((name, view?)))
                .collect();
            self.locks = locks.into_iter();
            self.next = (!page.next.is_empty()).then_some(page.next);
        }
    }
}

/// Returns the holds and waiters in a view.
fn parts(view: &NameView) -> impl Iterator<Item = Part<'_>> {
    let holders = view.holders.iter().filter_map(|holder| match holder {
        HolderView::Ours(hold) => Some(Part {
            one: One::Holder(hold.token),
            session: hold.session,
            predecessors: &hold.predecessors,
        }),
        HolderView::Foreign { .. } => None,
    });
    let waiters = view.waiters.iter().map(|waiter| Part {
        one: One::Waiter(waiter.number),
        session: waiter.session,
        predecessors: &waiter.predecessors,
    });
    holders.chain(waiters)
}
