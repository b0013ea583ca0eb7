//! One lock's state machine: `(state, command, now) → reply`.
//!
//! The Redis scripts do the same on keys; `server/store/lua` and this file must agree, and a differential test holds
//! them to it.

use std::time::Duration;

use crate::{
    command::{
        Acquire, CLAIM_TIME, CURRENT_AT_ONCE, Caller, Current, End, Executed, Former,
        GRANTS_AT_ONCE, Handed, Loss, Op, Reply,
    },
    hold::{Hold, Holders},
    id::{CoordinatorId, FencingToken, OwnerId},
    mode::{Mode, Taken},
    queue::{Queue, Waiter},
    time::StoreTime,
    view::HolderView,
};

/// Everything that is known of one name.
#[derive(Clone, Debug, Default)]
pub struct LockState {
    pub(crate) holders: Holders,
    pub(crate) token: Option<TokenRecord>,
    pub(crate) queue: Queue,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenRecord {
    pub(crate) last: FencingToken,
    forget_at: StoreTime,
}

/// Grants to waiters that one command made.
#[derive(Default)]
struct HandedOn {
    to: Vec<Handed>,
    more: bool,
}

impl HandedOn {
    /// Takes the grant to the one that asks out, who is told of it by the answer itself.
    fn take(&mut self, owner: &OwnerId) -> Option<FencingToken> {
        let mine = self.to.iter().position(|handed| handed.owner == *owner)?;
        Some(self.to.remove(mine).token)
    }
}

/// A reply with which nothing was handed on.
fn alone(reply: Reply) -> (Reply, HandedOn) {
    (reply, HandedOn::default())
}

impl LockState {
    /// Carries a command out at a moment that is not before that of the command before.
    pub fn apply(&mut self, caller: &Caller, op: &Op, now: StoreTime) -> Executed {
        self.forget(now);
        let may_be_late = matches!(op, Op::Release { .. } | Op::View { .. } | Op::Edges);
        let is_late = !may_be_late && caller.not_after.is_some_and(|limit| now > limit);
        let (reply, handed_on) = match op {
            _ if is_late => alone(Reply::Late),
            Op::Acquire(acquire) => self.acquire(caller, acquire, now),
            Op::Renew { owner, ttl } => alone(self.renew(caller, owner, *ttl, now)),
            Op::Release { owner, end } => self.release(caller, owner, *end, now),
            Op::Refresh { oldest } => self.refresh(caller, oldest.as_ref(), now),
            Op::ForceRelease => self.force_release(caller, now),
            Op::SetValue { owner, value } => {
                alone(self.change(owner, |hold| hold.value = value.clone()))
            }
            Op::SetCount { owner, count } => alone(self.change(owner, |hold| hold.count = *count)),
            Op::Downgrade { owner } => self.downgrade(caller, owner, now),
            Op::View { waiters } => alone(Reply::Seen(Box::new(self.view(*waiters, now)))),
            Op::Edges => alone(Reply::Edges(Box::new(self.edges(now)))),
        };
        Executed {
            reply,
            at: now,
            handed: handed_on.to,
            more: handed_on.more,
        }
    }

    /// The moments at which this state changes by itself, past ones included until it is looked at: expiries, the start of
    /// a lock-delay, and those from which a coordinator's waiters are skipped or dropped. For tests that compare it with
    /// another clock's idea of the same.
    pub fn deadlines(&self) -> Vec<StoreTime> {
        let mut deadlines = self.queue.deadlines();
        deadlines.extend(self.token.map(|token| token.forget_at));
        deadlines.extend(self.holders.deadlines());
        deadlines
    }

    /// When nothing will be left of this state unless it is used again; `None` if nothing is left now.
    pub fn forgettable_at(&self) -> Option<StoreTime> {
        let token = self.token.map(|token| token.forget_at);
        let queue = self.queue.forgettable_at();
        self.holders.last_end().max(token).max(queue)
    }

    /// Whether nothing is known of the name at this moment.
    pub fn is_forgotten(&mut self, now: StoreTime) -> bool {
        self.forget(now);
        self.holders.is_empty() && self.token.is_none() && self.queue.is_empty()
    }

    /// Whether the name is held, closed or waited for at this moment.
    pub fn in_use(&self, now: StoreTime) -> bool {
        self.holders.last_end().is_some_and(|end| end > now) || !self.queue.is_empty()
    }

    /// Drops what has run out.
    fn forget(&mut self, now: StoreTime) {
        self.holders.purge(now);
        self.token.take_if(|token| token.forget_at <= now);
        self.queue.purge(now);
    }

    fn acquire(&mut self, caller: &Caller, acquire: &Acquire, now: StoreTime) -> (Reply, HandedOn) {
        if let Some(token) = self.retake(caller, acquire, now) {
            return alone(Reply::Granted { token });
        }
        if let (Some(limit), Some(asked)) = (self.limit(), acquire.mode.limit())
            && limit != asked
        {
            return alone(Reply::OtherLimit { limit });
        }
        if acquire.wait {
            return self.acquire_or_wait(caller, acquire, now);
        }
        let mut handed_on = self.hand_on(caller, now);
        // It waited, and was next.
        if let Some(token) = handed_on.take(&acquire.owner) {
            return (Reply::Granted { token }, handed_on);
        }
        if self.queue.next(now).is_some() || !self.holders.taken().fits(acquire.mode) {
            let holder = self.first_holder(now);
            return (Reply::Busy { holder }, handed_on);
        }
        // It may wait at a coordinator that is taken for dead; nobody holds and waits.
        self.queue.leave(&acquire.owner);
        let token = self.grant(caller, acquire, &caller.coordinator.clone(), false, now);
        (Reply::Granted { token }, handed_on)
    }

    /// The same acquire again, since its reply was lost: the grant stands.
    fn retake(
        &mut self,
        caller: &Caller,
        acquire: &Acquire,
        now: StoreTime,
    ) -> Option<FencingToken> {
        let hold = self.holders.get_mut(&acquire.owner)?;
        hold.coordinator = caller.coordinator.clone();
        hold.confirmed = true;
        hold.fresh = false;
        let token = hold.token;
        let ends_at = now.after(acquire.ttl + acquire.lock_delay);
        self.holders.extend(&acquire.owner, ends_at);
        Some(token)
    }

    /// The limit that those who hold or wait for the semaphore agree on.
    pub(crate) fn limit(&self) -> Option<u32> {
        match self.holders.taken() {
            Taken::Permits { limit, .. } => Some(limit),
            _ => self.queue.limit(),
        }
    }

    fn acquire_or_wait(
        &mut self,
        caller: &Caller,
        acquire: &Acquire,
        now: StoreTime,
    ) -> (Reply, HandedOn) {
        if self.queue.is_empty() && self.holders.taken().fits(acquire.mode) {
            let token = self.grant(caller, acquire, &caller.coordinator.clone(), false, now);
            return alone(Reply::Granted { token });
        }
        self.queue.join(Waiter {
            acquire: acquire.clone(),
            coordinator: caller.coordinator.clone(),
            since: now,
        });
        let mut handed_on = self.hand_on(caller, now);
        let reply = match handed_on.take(&acquire.owner) {
            Some(token) => Reply::Granted { token },
            None => Reply::Queued {
                position: self.queue.position(&acquire.owner).unwrap_or(0),
                expires_in: self.expires_in(now),
            },
        };
        (reply, handed_on)
    }

    fn renew(&mut self, caller: &Caller, owner: &OwnerId, ttl: Duration, now: StoreTime) -> Reply {
        let Some(hold) = self.holders.get_mut(owner) else {
            return Reply::Lost(if self.holders.is_empty() {
                Loss::Deleted
            } else {
                Loss::Taken
            });
        };
        if let Some(token) = &mut self.token {
            token.forget_at = now.after(caller.token_memory);
        }
        if now.until(hold.ends_at) <= hold.delay() {
            return Reply::Lost(Loss::Expired);
        }
        hold.confirmed = true;
        hold.fresh = false;
        hold.coordinator = caller.coordinator.clone();
        let ends_at = now.after(ttl + hold.lock_delay);
        self.holders.extend(owner, ends_at);
        Reply::Renewed
    }

    fn release(
        &mut self,
        caller: &Caller,
        owner: &OwnerId,
        end: End,
        now: StoreTime,
    ) -> (Reply, HandedOn) {
        let waited = self.queue.leave(owner);
        let hold = self.holders.remove(owner);
        let held = hold.is_some();
        let closing = hold.filter(|hold| end == End::Unclean && !hold.delay().is_zero());
        if let Some(hold) = &closing {
            self.holders.close(hold, now.after(hold.delay()));
        }
        // Whoever leaves the queue may have been in the way of those behind.
        let handed_on = if closing.is_none() && (held || waited) {
            self.hand_on(caller, now)
        } else {
            HandedOn::default()
        };
        let reply = Reply::Released {
            held,
            waited,
            closed_for: closing.map(|hold| hold.delay()),
        };
        (reply, handed_on)
    }

    fn refresh(
        &mut self,
        caller: &Caller,
        oldest: Option<&OwnerId>,
        now: StoreTime,
    ) -> (Reply, HandedOn) {
        self.queue.refresh(&caller.coordinator, now);
        let handed_on = self.hand_on(caller, now);
        let is_alone = self.holders.exclusive().is_some();
        let mut current: Vec<Current> = self
            .holders
            .iter()
            .filter(|hold| hold.coordinator == caller.coordinator && (is_alone || hold.fresh))
            .map(|hold| Current {
                owner: hold.owner,
                token: hold.token,
                of_session: hold.session.is_some(),
            })
            .collect();
        current.sort_unstable_by_key(|current| current.token);
        current.truncate(CURRENT_AT_ONCE);
        let reply = Reply::Refreshed {
            current,
            expires_in: self.expires_in(now),
            attached: oldest.is_none_or(|oldest| {
                self.queue.contains(oldest) || self.holders.get(oldest).is_some()
            }),
        };
        (reply, handed_on)
    }

    fn force_release(&mut self, caller: &Caller, now: StoreTime) -> (Reply, HandedOn) {
        let released = !self.holders.is_empty();
        let holders = std::mem::take(&mut self.holders);
        let mut former: Vec<Former> = holders
            .iter()
            .map(|hold| Former {
                owner: hold.owner,
                coordinator: hold.coordinator.clone(),
            })
            .collect();
        former.sort_unstable_by_key(|former| former.owner);
        if released {
            self.mint(caller, now);
        }
        let handed_on = self.hand_on(caller, now);
        let token = self.token.map(|record| record.last).unwrap_or_default();
        let reply = Reply::Forced {
            former,
            released,
            token,
        };
        (reply, handed_on)
    }

    fn change(&mut self, owner: &OwnerId, change: impl FnOnce(&mut Hold)) -> Reply {
        let hold = self.holders.get_mut(owner);
        let is_held = hold.is_some();
        hold.map(change);
        Reply::Changed(is_held)
    }

    fn downgrade(&mut self, caller: &Caller, owner: &OwnerId, now: StoreTime) -> (Reply, HandedOn) {
        let mode = self.holders.get(owner).map(|hold| hold.mode);
        if mode != Some(Mode::Exclusive) {
            return alone(Reply::Changed(mode == Some(Mode::Shared)));
        }
        if let Some(hold) = self.holders.remove(owner) {
            self.holders.add(Hold {
                mode: Mode::Shared,
                fresh: false,
                ..hold
            });
        }
        (Reply::Changed(true), self.hand_on(caller, now))
    }

    /// Grants what is free to the next living waiters, one after the other, as long as the next one fits. For another
    /// coordinator's waiter the grant stands only for the claim time, until that coordinator confirms it.
    fn hand_on(&mut self, caller: &Caller, now: StoreTime) -> HandedOn {
        let mut handed_on = HandedOn::default();
        while let Some(next) = self.queue.next(now)
            && self.holders.taken().fits(next.acquire.mode)
        {
            if handed_on.to.len() == GRANTS_AT_ONCE {
                handed_on.more = true;
                break;
            }
            let Waiter {
                acquire,
                coordinator,
                ..
            } = next.clone();
            self.queue.leave(&acquire.owner);
            let token = self.grant(caller, &acquire, &coordinator, true, now);
            handed_on.to.push(Handed {
                owner: acquire.owner,
                token,
                coordinator,
                of_session: acquire.session.is_some(),
            });
        }
        handed_on
    }

    fn grant(
        &mut self,
        caller: &Caller,
        acquire: &Acquire,
        coordinator: &CoordinatorId,
        fresh: bool,
        now: StoreTime,
    ) -> FencingToken {
        let token = self.mint(caller, now);
        let confirmed = *coordinator == caller.coordinator;
        let lasts = if confirmed {
            acquire.ttl + acquire.lock_delay
        } else {
            CLAIM_TIME
        };
        self.holders.add(Hold {
            owner: acquire.owner,
            session: acquire.session,
            actor: acquire.actor,
            client_name: acquire.client_name.clone(),
            mode: acquire.mode,
            count: 1,
            coordinator: coordinator.clone(),
            token,
            acquired_at: now,
            lock_delay: acquire.lock_delay,
            confirmed,
            fresh,
            value: acquire.value.clone(),
            ends_at: now.after(lasts),
        });
        token
    }

    fn mint(&mut self, caller: &Caller, now: StoreTime) -> FencingToken {
        let last = self.token.map_or(0, |record| record.last.get());
        let token = (last + 1).max(now.as_micros()).max(caller.floor.get());
        self.token = Some(TokenRecord {
            last: FencingToken::new(token),
            forget_at: now.after(caller.token_memory),
        });
        FencingToken::new(token)
    }

    fn first_holder(&self, now: StoreTime) -> Option<HolderView> {
        let hold = self.holders.iter().next()?;
        Some(HolderView::Ours(Box::new(hold.view(now))))
    }

    fn expires_in(&self, now: StoreTime) -> Option<Duration> {
        self.holders.next_end().map(|end| now.until(end))
    }
}
