//! Model of one name's holds: what its clients may believe, from the replies alone.

use std::{collections::HashMap, time::Duration};

use leasehold_core::{
    command::{CLAIM_TIME, End, Loss, One, Reply, ResumedTerms},
    id::Predecessors,
    mode::{Mode, Permits},
    time::StoreTime,
};

use crate::locks::{
    history::{Asked, Deed, Event, Found, Owner},
    hold::{Ghost, Grant, Hold},
    modes::{chosen, fewest, go_together},
};

/// The holds of one name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) holds: Vec<Hold>,
    pub(crate) ghosts: Vec<Ghost>,
    /// The owner ids that stand for nothing any more, and until when that is remembered.
    replaced: HashMap<Owner, StoreTime>,
    /// The same of waits that an operator ended.
    forced: HashMap<Owner, StoreTime>,
    /// The events that contradict the holds that stand.
    pub(crate) contradictions: Vec<String>,
}

impl Ledger {
    /// Drops what is over.
    pub(crate) fn pass(&mut self, now: StoreTime) {
        self.holds.retain(|hold| hold.over() > now);
        self.ghosts.retain(|ghost| ghost.until > now);
        self.replaced.retain(|_, until| *until > now);
        self.forced.retain(|_, until| *until > now);
    }

    /// Enters an event, and returns the grants that it made, in order. `direct` says that a granted acquire took no place in
    /// the queue, not even its own.
    pub(crate) fn enter(
        &mut self,
        event: &Event,
        asked: &[Asked],
        direct: bool,
        found: Found,
    ) -> Vec<Grant> {
        self.check(event, asked, found);
        self.resume(event, asked, found);
        self.change(event, asked);
        let handed = event.handed.iter();
        let mut grants: Vec<_> = handed
            .map(|handed| {
                let to = (handed.owner, handed.coordinator);
                (handed.token, to, true, Some(handed.permits))
            })
            .collect();
        if let (Deed::Acquire(owner, _), Reply::Granted { token, permits }) =
            (event.deed, &event.reply)
        {
            match self.get(owner).filter(|hold| hold.token == *token) {
                None => grants.push((*token, (owner, event.by), !direct, Some(*permits))),
                Some(hold) => {
                    let mode = hold.mode;
                    self.check_chosen(*permits, mode, event);
                }
            }
        }
        let mut resumed = None;
        if let (Deed::Resume(resumption), Reply::Resumed { token, mode, .. }) =
            (event.deed, &event.reply)
            && let Found::Place(place) = found
        {
            let next = resumption.next;
            resumed = Some((next, place));
            grants.push((*token, (next, event.by), true, Some(chosen(*mode))));
        }
        grants.sort_unstable_by_key(|(token, ..)| *token);
        let mut made = Vec::new();
        for (token, (owner, coordinator), fresh, permits) in grants {
            let ask = asked[owner.0].ask;
            // A place that was resumed asks for what it was taken with, whatever it got.
            let place = resumed.filter(|(next, _)| *next == owner);
            let wanted = place.map_or(ask.mode, |(_, place)| asked[place.0].ask.mode);
            let mode = self.granted(wanted);
            if let Some(permits) = permits {
                self.check_chosen(permits, mode, event);
            }
            // A hand-off to elsewhere asks for no lock-delay before it is confirmed: its client has not heard of it.
            let (ttl, lock_delay) = if coordinator == event.by {
                (ask.ttl, ask.lock_delay)
            } else {
                (CLAIM_TIME, Duration::ZERO)
            };
            made.push(self.grant(Hold {
                owner,
                token,
                mode,
                coordinator,
                from: event.at,
                until: event.at.after(ttl),
                lock_delay,
                count: 1,
                value: 0,
                is_anonymous: false,
                fresh,
            }));
        }
        made
    }

    /// Returns whether there is room for one more like this.
    pub(crate) fn fits(&self, mode: Mode) -> bool {
        go_together(&self.modes().chain([fewest(mode)]).collect::<Vec<_>>())
    }

    /// Returns the modes of holds and ghosts.
    fn modes(&self) -> impl Iterator<Item = Mode> {
        let holds = self.holds.iter().map(|hold| hold.mode);
        holds.chain(self.ghosts.iter().map(|ghost| ghost.mode))
    }

    /// Returns the mode in which one that asks for this mode is granted: with as many permits as are free, up to what it asks.
    fn granted(&self, mode: Mode) -> Mode {
        let (Mode::Semaphore(asked), Some(limit)) = (mode, chosen(mode).and(mode.limit())) else {
            return mode;
        };
        let taken: u32 = self.modes().map(Mode::permits).sum();
        let number = asked
            .number()
            .min(limit.number.saturating_sub(taken))
            .max(1);
        let granted = Permits::new(number, limit.number).unwrap();
        let granted = granted.of_revision(limit.revision);
        Mode::Semaphore(granted.or_at_least(asked.at_least().unwrap_or(0)))
    }

    /// Checks the number of permits in the answer to an acquire.
    fn check_chosen(&mut self, told: Option<u32>, mode: Mode, event: &Event) {
        if told != chosen(mode) {
            let what = format!("{event:?} says {told:?} permits of {mode:?}");
            self.contradictions.push(what);
        }
    }

    /// Returns whether a resume replaced this owner id.
    pub(crate) fn is_replaced(&self, owner: Owner) -> bool {
        self.replaced.contains_key(&owner)
    }

    /// Returns why an owner id stands for nothing any more, if that is remembered.
    fn void(&self, owner: Owner) -> Option<Loss> {
        let resumed = self.is_replaced(owner).then_some(Loss::Resumed);
        resumed.or(self.forced.contains_key(&owner).then_some(Loss::Forced))
    }

    /// Applies a resume to the holds that stand.
    fn resume(&mut self, event: &Event, asked: &[Asked], found: Found) {
        let (by, at) = (event.by, event.at);
        let Deed::Resume(resumption) = event.deed else {
            return;
        };
        if let (Found::Hold(owner), Reply::Lost(Loss::Expired)) = (found, &event.reply) {
            self.anonymize(owner);
        }
        if !matches!(
            event.reply,
            Reply::Resumed { .. } | Reply::ResumedWait { .. }
        ) {
            return;
        }
        let next = resumption.next;
        if let Found::Hold(owner) = found
            && let Some(hold) = self.get_mut(owner)
        {
            hold.owner = next;
            hold.is_anonymous = false;
            if owner != next {
                hold.count = next.count().max(1);
            }
            let ask = asked[next.0].ask;
            hold.confirm(by, at, ask.ttl, ask);
        }
        // Whatever else the resume named stood for nothing, and is not remembered.
        if let Found::Hold(owner) | Found::Place(owner) = found
            && owner != next
        {
            self.replaced.insert(owner, at.after(event.memory));
        }
    }

    /// Forgets what a hold says of its client: it was found to be over.
    fn anonymize(&mut self, owner: Owner) {
        if let Some(hold) = self.get_mut(owner) {
            hold.is_anonymous = true;
            hold.value = 0;
        }
    }

    pub(crate) fn get(&self, owner: Owner) -> Option<&Hold> {
        self.holds.iter().find(|hold| hold.owner == owner)
    }

    fn get_mut(&mut self, owner: Owner) -> Option<&mut Hold> {
        self.holds.iter_mut().find(|hold| hold.owner == owner)
    }

    /// Applies an event to the holds that stand.
    fn change(&mut self, event: &Event, asked: &[Asked]) {
        let (by, at) = (event.by, event.at);
        match (event.deed, &event.reply) {
            (Deed::Acquire(owner, _), Reply::Granted { token, .. }) => {
                let ask = asked[owner.0].ask;
                if let Some(hold) = self.get_mut(owner)
                    && hold.token == *token
                {
                    // Told once more; it never ends sooner.
                    let left = at.until(hold.until.after(hold.lock_delay));
                    let ttl = ask.ttl.max(left.saturating_sub(ask.lock_delay));
                    hold.confirm(by, at, ttl, ask);
                }
            }
            (Deed::Renew(owner, ttl), Reply::Renewed) => {
                if let Some(hold) = self.get_mut(owner) {
                    hold.confirm(by, at, ttl, asked[owner.0].ask);
                }
            }
            (Deed::Renew(owner, _) | Deed::Acquire(owner, _), Reply::Lost(Loss::Expired)) => {
                self.anonymize(owner);
            }
            (Deed::Release(owner, end), Reply::Released { held: true, .. }) => {
                self.end(owner, at, end);
            }
            // Takes it from the lock-delays too.
            (Deed::Force, Reply::Forced { released: true, .. }) => {
                self.holds.clear();
                self.ghosts.clear();
            }
            (Deed::ForceOne(One::Holder(token)), _) => {
                self.holds.retain(|hold| hold.token != token);
            }
            (Deed::ForceOne(One::Waiter(_)), Reply::Forced { former, .. }) => {
                for former in former {
                    let owner = Owner::of(&former.owner);
                    self.forced.insert(owner, at.after(event.memory));
                }
            }
            (Deed::Downgrade(owner), Reply::Changed(true)) => {
                if let Some(hold) = self.get_mut(owner)
                    && hold.mode == Mode::Exclusive
                {
                    hold.mode = Mode::Shared;
                    hold.fresh = false;
                }
            }
            (Deed::Reduce(owner, most), Reply::Changed(true)) => {
                if let Some(hold) = self.get_mut(owner)
                    && let Mode::Semaphore(held) = hold.mode
                {
                    let limit = held.limit();
                    let kept = Permits::new(held.number().min(most), limit.number).unwrap();
                    let kept = kept.of_revision(limit.revision);
                    hold.mode = Mode::Semaphore(kept.or_at_least(held.at_least().unwrap_or(0)));
                }
            }
            (Deed::SetCount(owner, count), Reply::Changed(true)) => {
                if let Some(hold) = self.get_mut(owner) {
                    hold.count = count;
                }
            }
            (Deed::SetValue(owner, value), Reply::Changed(true)) => {
                if let Some(hold) = self.get_mut(owner) {
                    hold.value = value;
                }
            }
            _ => {}
        }
    }

    fn grant(&mut self, hold: Hold) -> Grant {
        let (beside, run_out): (Vec<Hold>, Vec<Hold>) =
            self.holds.iter().partition(|other| other.until > hold.from);
        let run_out = run_out.iter().map(|hold| hold.mode);
        let ghosts = self.ghosts.iter().map(|ghost| ghost.mode);
        let closed = run_out.chain(ghosts).collect();
        self.holds.push(hold);
        Grant {
            hold,
            beside,
            closed,
        }
    }

    fn end(&mut self, owner: Owner, at: StoreTime, end: End) {
        let Some(place) = self.holds.iter().position(|hold| hold.owner == owner) else {
            return;
        };
        let hold = self.holds.remove(place);
        if end == End::Unclean && !hold.lock_delay.is_zero() {
            self.ghosts.retain(|ghost| ghost.owner != owner);
            self.ghosts.push(Ghost {
                owner,
                mode: hold.mode,
                until: at.after(hold.lock_delay),
            });
        }
    }

    /// Checks the reply to an event: a caller that is told that it holds does hold, a holder is never told otherwise, and a
    /// refused renewal names the right reason.
    fn check(&mut self, event: &Event, asked: &[Asked], found: Found) {
        let told = match (event.deed, &event.reply) {
            (Deed::Renew(owner, _), reply @ (Reply::Renewed | Reply::Lost(_))) => {
                let due = match self.get(owner) {
                    Some(hold) if hold.until > event.at => Reply::Renewed,
                    Some(_) => Reply::Lost(Loss::Expired),
                    None if self.is_replaced(owner) => Reply::Lost(Loss::Resumed),
                    None if self.holds.is_empty() && self.ghosts.is_empty() => {
                        Reply::Lost(Loss::Deleted)
                    }
                    None => Reply::Lost(Loss::Taken),
                };
                *reply == due
            }
            (Deed::Acquire(owner, _), reply) if *reply != Reply::Late => {
                let told = match reply {
                    Reply::Lost(loss) => Some(*loss),
                    _ => None,
                };
                let has_run_out = self.get(owner).is_some_and(|hold| hold.until <= event.at);
                told == self.void(owner).or(has_run_out.then_some(Loss::Expired))
            }
            (Deed::Resume(resumption), reply) if *reply != Reply::Late => match found {
                Found::Hold(owner) => self.get(owner).is_some_and(|hold| {
                    *reply
                        == if hold.until > event.at {
                            Reply::Resumed {
                                token: hold.token,
                                mode: hold.mode,
                                actor: asked[owner.0].actor,
                                terms: Box::new(ResumedTerms {
                                    lock_delay: asked[owner.0].ask.lock_delay,
                                    ends_in: None,
                                    // `resuming` sees to those.
                                    predecessors: match reply {
                                        Reply::Resumed { terms, .. } => terms.predecessors.clone(),
                                        _ => Predecessors::default(),
                                    },
                                }),
                            }
                        } else {
                            Reply::Lost(Loss::Expired)
                        }
                }),
                // The line sees to that.
                Found::Place(_) => true,
                Found::Nothing => {
                    let ids = [resumption.next].into_iter();
                    let ids = ids.chain(resumption.former());
                    let mut void = ids.filter_map(|owner| self.void(owner));
                    let due = if let Some(loss) = void.next() {
                        loss
                    } else if self.holds.is_empty() && self.ghosts.is_empty() {
                        Loss::Deleted
                    } else {
                        Loss::Taken
                    };
                    *reply == Reply::Lost(due)
                }
            },
            (
                Deed::ForceOne(one),
                Reply::Forced {
                    former,
                    released,
                    token,
                },
            ) => {
                let due = match one {
                    One::Holder(token) => {
                        let mut holds = self.holds.iter();
                        let hold = holds.find(|hold| hold.token == token);
                        let owner = hold.map(|hold| hold.owner);
                        former.iter().map(|f| Owner::of(&f.owner)).eq(owner)
                    }
                    // The line sees to that.
                    One::Waiter(_) => true,
                };
                let is_outdated = match one {
                    One::Holder(former) => !released || *token > former,
                    One::Waiter(_) => true,
                };
                due && *released == (former.len() == 1) && is_outdated
            }
            (Deed::SetValue(owner, _) | Deed::SetCount(owner, _), Reply::Changed(held)) => {
                *held == self.get(owner).is_some()
            }
            (Deed::Downgrade(owner), Reply::Changed(shared)) => {
                let mode = self.get(owner).map(|hold| hold.mode);
                *shared == matches!(mode, Some(Mode::Exclusive | Mode::Shared))
            }
            (Deed::Reduce(owner, _), Reply::Changed(reduced)) => {
                let mode = self.get(owner).map(|hold| hold.mode);
                *reduced == matches!(mode, Some(Mode::Semaphore(_)))
            }
            (
                Deed::Release(owner, end),
                Reply::Released {
                    held, closed_for, ..
                },
            ) => {
                let hold = self.get(owner);
                let delay = hold.map(|hold| hold.lock_delay);
                let closes = end == End::Unclean && delay != Some(Duration::ZERO);
                (*held, *closed_for) == (hold.is_some(), delay.filter(|_| closes))
            }
            _ => return,
        };
        if !told {
            self.contradictions
                .push(format!("{event:?} though {:#?}", self.holds));
        }
    }
}
