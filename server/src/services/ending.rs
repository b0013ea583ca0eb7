//! End of a session by an operator: a mark for all coordinators, and then a search for what the session may have left in the store.
//!
//! The coordinator that has a session decides whether the operator may end it, when it does so. What the store has left is
//! searched for among the names that the operator may administer.

use std::{time::Duration, vec};

use leasehold_core::{
    command::{One, Op},
    ended::{EndChange, EndedCount, MOST_ENDED, MOST_ENDED_BY_ONE, Mark},
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
    access::rules::{Granted, Permission, Prefixes},
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
/// For how long a mark is kept that has done its work: a resume of what the session had may be on its way to the store.
const SETTLED: Duration = Duration::from_secs(10);
/// For how long the mark of a caller that may administer some locks is kept, from each look at it.
const BRIEF: Duration = Duration::from_secs(30);
/// A view of holders and waiters without their values.
const SEARCH: Op = Op::View {
    waiters: SHOWN_WAITERS,
    value_bytes: 0,
};

/// End of one session.
pub(super) struct Ending {
    pub(super) mark: Mark,
    /// What the caller may do.
    pub(super) granted: Granted,
    pub(super) coordinator: Coordinator,
    pub(super) listings: Listings,
}

/// A hold or waiter.
struct Part<'a> {
    one: One,
    session: Option<SessionId>,
    predecessors: &'a Predecessors,
}

/// A walk through all locks that the store has of these names.
struct Walk<'a> {
    ending: &'a Ending,
    /// The prefixes that were not begun yet.
    prefixes: Vec<String>,
    /// Those that were looked at.
    locks: vec::IntoIter<(LockName, NameView)>,
    /// The prefix of those that come next, and the token of their page.
    next: Option<(String, String)>,
}

/// Checks that a caller may end any session at all.
pub(super) fn check(granted: &Granted) -> Result<(), Refusal> {
    match prefixes(granted).is_empty() {
        true => Err(denied_but(EndedCount::default())),
        false => Ok(()),
    }
}

/// Returns the names that a caller may administer.
fn prefixes(granted: &Granted) -> Prefixes {
    let names = granted.names(Permission::Administer);
    Prefixes::new(names.iter().flat_map(Prefixes::iter))
}

/// Returns the refusal of an end that has ended this nevertheless.
fn denied_but(ended: EndedCount) -> Refusal {
    let mut why = "to end a session needs the permission `administer` on all locks, or on each that it holds or waits for; so does the end of one that has resumed something from it".to_owned();
    let EndedCount {
        sessions,
        holds,
        waiters,
        ..
    } = ended;
    if sessions > 0 {
        why += &format!("; ended were {sessions} sessions, {holds} holds and {waiters} waits");
    }
    // Without the name of a lock that the caller may not see.
    Refusal::new(Reason::PermissionDenied, why)
        .with("permission", Permission::Administer.as_str())
        .with("name", "")
}

impl Ending {
    /// Ends the session. Returns what was ended, and the refusal if not everything was for want of a permission.
    pub(super) async fn end(&self) -> Result<(EndedCount, Option<Refusal>), Refusal> {
        let before = self.begin().await?;
        // Here at once; other coordinators look at the marks.
        let mark = self.mark.clone();
        self.coordinator.ends().end(mark, &self.granted);
        let counted = self.answers(before).await?;
        if counted.denied > before.denied {
            return self.denied(counted.since(before)).await;
        }
        let was_answered = counted != before;
        // What a coordinator has counted is on its way out, and would count twice.
        let (mut found, sees_all) = self.search().await?;
        if was_answered {
            found = self.left_of(found).await?;
        }
        let is_nothing_left = found.is_empty() && sees_all;
        let left = self.end_rest(found).await?;
        // Once more, so that a store that has forgotten the mark in a fail-over has it.
        let after = self.begin().await?.max(counted);
        // So would what a coordinator has counted since the search began.
        let counted = match left == EndedCount::default() {
            true => after,
            false => counted,
        };
        let EndedCount {
            sessions, denied, ..
        } = after.since(before);
        let ended = EndedCount {
            sessions,
            ..counted.since(before).plus(left)
        };
        if denied > 0 {
            return self.denied(ended).await;
        }
        // Whether a session that has nothing exists is not for those who may administer some locks.
        let is_unknown = ended == EndedCount::default() && !self.granted.administers_all();
        if is_unknown || was_answered && is_nothing_left {
            self.change(EndChange::Settle(self.mark.clone(), SETTLED))
                .await?;
        }
        Ok((ended, is_unknown.then(|| denied_but(ended))))
    }

    /// Forgets the mark, so that nothing ends later. Returns what was ended, and the refusal.
    async fn denied(&self, ended: EndedCount) -> Result<(EndedCount, Option<Refusal>), Refusal> {
        let forgotten = EndChange::Settle(self.mark.clone(), Duration::from_millis(1));
        self.change(forgotten).await?;
        let ended = EndedCount { denied: 0, ..ended };
        Ok((ended, Some(denied_but(ended))))
    }

    /// Marks the session for all coordinators. Returns what they have ended because of the mark so far.
    async fn begin(&self) -> Result<EndedCount, Refusal> {
        let kept_for = match self.granted.administers_all() {
            // As long as a session may have anything that its coordinator does not renew.
            true => self.coordinator.bounds().token_memory(),
            // What the caller is denied must not end when it has long heard so.
            false => BRIEF,
        };
        let counted = self.change(EndChange::Mark(self.mark.clone(), kept_for));
        counted.await?.ok_or_else(|| {
            let why = format!(
                "the store keeps no more than {MOST_ENDED} marks of sessions that are to end, and {MOST_ENDED_BY_ONE} of one caller; try again later"
            );
            Refusal::new(Reason::TooManyEnded, why).with("limit", MOST_ENDED)
        })
    }

    /// Changes the mark. Returns what was counted, `None` if there is no room for a mark.
    async fn change(&self, change: EndChange) -> Result<Option<EndedCount>, Refusal> {
        let marks = self.coordinator.store().ended_sessions(Some(change)).await;
        Ok(marks?.map(|marks| {
            let mut marks = marks.into_iter().filter(|(mark, _)| *mark == self.mark);
            marks.next().map(|(_, count)| count).unwrap_or_default()
        }))
    }

    /// Waits for what the coordinators say. Returns what they have ended in all.
    async fn answers(&self, before: EndedCount) -> Result<EndedCount, Refusal> {
        sleep(PATIENCE).await;
        let given_up = Instant::now() + PATIENCE;
        let mut counted = self.begin().await?;
        while counted == before && Instant::now() < given_up {
            sleep(PAUSE).await;
            counted = self.begin().await?;
        }
        Ok(counted)
    }

    /// Returns the names of the locks that have something of the session, and whether all of each lock was seen.
    async fn search(&self) -> Result<(Vec<LockName>, bool), Refusal> {
        let (mut locks, mut found, mut sees_all) = (self.locks(), Vec::new(), true);
        while let Some((name, view)) = locks.next().await? {
            sees_all &= view.holder_count <= view.holders.len() as u64
                && view.waiter_count <= view.waiters.len() as u64;
            if self.parts(&view).next().is_some() {
                found.push(name);
            }
        }
        Ok((found, sees_all))
    }

    /// Waits until these locks have nothing of the session any more, and returns those that still have after a while.
    async fn left_of(&self, mut names: Vec<LockName>) -> Result<Vec<LockName>, Refusal> {
        let given_up = Instant::now() + PATIENCE;
        while !names.is_empty() && Instant::now() < given_up {
            sleep(PAUSE).await;
            let views = self.listings.views(&self.coordinator, &names, &SEARCH);
            let mut views = views.await?.into_iter();
            names.retain(|_| {
                let view = views.next().flatten();
                view.is_some_and(|view| self.parts(&view).next().is_some())
            });
        }
        Ok(names)
    }

    /// Ends what these locks have of the session, and of what others have resumed of it: their coordinators may be dead.
    /// Searches until nothing is found.
    async fn end_rest(&self, mut names: Vec<LockName>) -> Result<EndedCount, Refusal> {
        let mut ended = EndedCount::default();
        for _ in 0..MOST_PASSES {
            if names.is_empty() {
                return Ok(ended);
            }
            let views = self.listings.views(&self.coordinator, &names, &SEARCH);
            for (name, view) in names.iter().zip(views.await?) {
                let Some(view) = view else { continue };
                for Part { one, .. } in self.parts(&view) {
                    let forced = names::force_release(&self.coordinator, name, Some(one));
                    let (is_released, _) = forced.await?;
                    let counter = match one {
                        One::Holder(_) => &mut ended.holds,
                        One::Waiter(_) => &mut ended.waiters,
                    };
                    *counter += u32::from(is_released);
                }
            }
            (names, _) = self.search().await?;
        }
        Err(Refusal::new(
            Reason::StoreIndeterminate,
            "locks kept naming the session while it was ended; it is marked and ends at its coordinator, ask again to be sure",
        ))
    }

    /// Begins to walk through the locks that the caller may administer.
    fn locks(&self) -> Walk<'_> {
        Walk {
            ending: self,
            prefixes: prefixes(&self.granted).iter().map(str::to_owned).collect(),
            locks: Vec::new().into_iter(),
            next: None,
        }
    }

    /// Returns what a view shows of the session, and of those that have resumed it.
    fn parts<'v>(&self, view: &'v NameView) -> impl Iterator<Item = Part<'v>> {
        let id = self.mark.session;
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
            let next = self.next.take();
            let next = next.or_else(|| Some((self.prefixes.pop()?, String::new())));
            let Some((prefix, token)) = next else {
                return Ok(None);
            };
            let page = coordinator.store().list(&prefix, &token, PAGE).await?;
            let page = page.map_err(|invalid| Refusal::field("page_token", invalid))?;
            let views = listings.views(coordinator, &page.names, &SEARCH);
            let views = views.await?;
            let locks = page.names.into_iter().zip(views);
            let locks: Vec<_> = locks
                .filter_map(|(name, view)| Some((name, view?)))
                .collect();
            self.locks = locks.into_iter();
            self.next = (!page.next.is_empty()).then_some((prefix, page.next));
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
