//! One lock's state machine: `(state, command, now) → reply`.
//!
//! The Redis scripts do the same on keys; `server/store/lua` and this file must agree, and a differential test holds
//! them to it.

use std::time::Duration;

use crate::{
    command::{
        Acquire, CLAIM_TIME, Caller, Current, End, Executed, Former, Handed, Loss, Op, Reply,
    },
    hold::{Hold, Key, KeyHolder},
    id::{CoordinatorId, FencingToken, OwnerId},
    name::Value,
    queue::{Queue, Waiter},
    time::StoreTime,
    view::{HolderView, NameView, WaiterView},
};

/// Everything that is known of one name.
#[derive(Clone, Debug, Default)]
pub struct LockState {
    key: Option<Key>,
    token: Option<TokenRecord>,
    queue: Queue,
}

#[derive(Clone, Copy, Debug)]
struct TokenRecord {
    last: FencingToken,
    forget_at: StoreTime,
}

impl LockState {
    /// Carries a command out at a moment that is not before that of the command before.
    pub fn apply(&mut self, caller: &Caller, op: &Op, now: StoreTime) -> Executed {
        self.forget(now);
        let may_be_late = matches!(op, Op::Release { .. } | Op::View { .. });
        if !may_be_late && caller.not_after.is_some_and(|limit| now > limit) {
            return Executed {
                reply: Reply::Late,
                at: now,
                handed: None,
            };
        }
        let (reply, handed) = match op {
            Op::Acquire(acquire) => self.acquire(caller, acquire, now),
            Op::Renew { owner, ttl } => (self.renew(caller, owner, *ttl, now), None),
            Op::Release { owner, end } => self.release(caller, owner, *end, now),
            Op::Refresh { oldest } => self.refresh(caller, oldest.as_ref(), now),
            Op::ForceRelease => self.force_release(caller, now),
            Op::SetValue { owner, value } => (self.set_value(owner, value), None),
            Op::View { waiters } => (Reply::Seen(Box::new(self.view(*waiters, now))), None),
        };
        Executed {
            reply,
            at: now,
            handed,
        }
    }

    /// The moments at which this state changes by itself, past ones included until it is looked at: expiries, the start of
    /// a lock-delay, and those from which a coordinator's waiters are skipped or dropped. For tests that compare it with
    /// another clock's idea of the same.
    pub fn deadlines(&self) -> Vec<StoreTime> {
        let mut deadlines = self.queue.deadlines();
        deadlines.extend(self.token.map(|token| token.forget_at));
        if let Some(key) = &self.key {
            deadlines.push(key.expires_at);
            if let KeyHolder::Held(hold) = &key.holder {
                deadlines.push(key.expires_at.before(hold.delay()));
            }
        }
        deadlines
    }

    /// When nothing will be left of this state unless it is used again; `None` if nothing is left now.
    pub fn forgettable_at(&self) -> Option<StoreTime> {
        let key = self.key.as_ref().map(|key| key.expires_at);
        let token = self.token.map(|token| token.forget_at);
        let queue = self.queue.forgettable_at();
        key.max(token).max(queue)
    }

    /// Whether nothing is known of the name at this moment.
    pub fn is_forgotten(&mut self, now: StoreTime) -> bool {
        self.forget(now);
        self.key.is_none() && self.token.is_none() && self.queue.is_empty()
    }

    /// Whether the name is held, closed or waited for at this moment.
    pub fn in_use(&self, now: StoreTime) -> bool {
        self.key.as_ref().is_some_and(|key| key.expires_at > now) || !self.queue.is_empty()
    }

    /// Drops what has run out.
    fn forget(&mut self, now: StoreTime) {
        self.key.take_if(|key| key.expires_at <= now);
        self.token.take_if(|token| token.forget_at <= now);
        self.queue.purge(now);
    }

    fn acquire(
        &mut self,
        caller: &Caller,
        acquire: &Acquire,
        now: StoreTime,
    ) -> (Reply, Option<Handed>) {
        if let Some(token) = self.retake(caller, acquire, now) {
            return (Reply::Granted { token }, None);
        }
        if acquire.wait {
            return self.acquire_or_wait(caller, acquire, now);
        }
        let handed = self.hand_on(caller, now);
        if self.key.is_some() {
            let holder = self.holder(now);
            return (Reply::Busy { holder }, handed);
        }
        // It may wait at a coordinator that is taken for dead; nobody holds and waits.
        self.queue.leave(&acquire.owner);
        let token = self.grant(caller, acquire, &caller.coordinator.clone(), now);
        (Reply::Granted { token }, None)
    }

    /// The same acquire again, since its reply was lost: the grant stands.
    fn retake(
        &mut self,
        caller: &Caller,
        acquire: &Acquire,
        now: StoreTime,
    ) -> Option<FencingToken> {
        let key = self.key.as_mut()?;
        let KeyHolder::Held(hold) = &mut key.holder else {
            return None;
        };
        if hold.owner != acquire.owner {
            return None;
        }
        hold.coordinator = caller.coordinator.clone();
        hold.confirmed = true;
        key.expires_at = now.after(acquire.ttl + acquire.lock_delay);
        Some(hold.token)
    }

    fn acquire_or_wait(
        &mut self,
        caller: &Caller,
        acquire: &Acquire,
        now: StoreTime,
    ) -> (Reply, Option<Handed>) {
        if self.key.is_none() && self.queue.is_empty() {
            let token = self.grant(caller, acquire, &caller.coordinator.clone(), now);
            return (Reply::Granted { token }, None);
        }
        self.queue.join(Waiter {
            acquire: acquire.clone(),
            coordinator: caller.coordinator.clone(),
            since: now,
        });
        let handed = self.hand_on(caller, now);
        if let Some(handed) = &handed
            && handed.owner == acquire.owner
        {
            return (
                Reply::Granted {
                    token: handed.token,
                },
                None,
            );
        }
        let reply = Reply::Queued {
            position: self.queue.position(&acquire.owner).unwrap_or(0),
            expires_in: self.expires_in(now),
        };
        (reply, handed)
    }

    fn renew(&mut self, caller: &Caller, owner: &OwnerId, ttl: Duration, now: StoreTime) -> Reply {
        let Some(key) = &mut self.key else {
            return Reply::Lost(Loss::Deleted);
        };
        let KeyHolder::Held(hold) = &mut key.holder else {
            return Reply::Lost(Loss::Taken);
        };
        if hold.owner != *owner {
            return Reply::Lost(Loss::Taken);
        }
        if let Some(token) = &mut self.token {
            token.forget_at = now.after(caller.token_memory);
        }
        if now.until(key.expires_at) <= hold.delay() {
            return Reply::Lost(Loss::Expired);
        }
        hold.confirmed = true;
        key.expires_at = now.after(ttl + hold.lock_delay);
        hold.coordinator = caller.coordinator.clone();
        Reply::Renewed
    }

    fn release(
        &mut self,
        caller: &Caller,
        owner: &OwnerId,
        end: End,
        now: StoreTime,
    ) -> (Reply, Option<Handed>) {
        let mut closed_for = None;
        let mut handed = None;
        let waited = self.queue.leave(owner);
        let held = match self.hold_of(owner) {
            None => false,
            Some(hold) if end == End::Unclean && !hold.delay().is_zero() => {
                let lock_delay = hold.delay();
                self.key = Some(Key {
                    holder: KeyHolder::Closed,
                    expires_at: now.after(lock_delay),
                });
                closed_for = Some(lock_delay);
                true
            }
            Some(_) => {
                self.key = None;
                handed = self.hand_on(caller, now);
                true
            }
        };
        (
            Reply::Released {
                held,
                waited,
                closed_for,
            },
            handed,
        )
    }

    fn refresh(
        &mut self,
        caller: &Caller,
        oldest: Option<&OwnerId>,
        now: StoreTime,
    ) -> (Reply, Option<Handed>) {
        self.queue.refresh(&caller.coordinator, now);
        let handed = self.hand_on(caller, now);
        let hold = match &self.key {
            Some(Key {
                holder: KeyHolder::Held(hold),
                ..
            }) => Some(hold),
            _ => None,
        };
        let reply = Reply::Refreshed {
            current: hold
                .filter(|hold| hold.coordinator == caller.coordinator)
                .map(|hold| Current {
                    owner: hold.owner,
                    token: hold.token,
                    of_session: hold.session.is_some(),
                }),
            expires_in: self.expires_in(now),
            attached: oldest.is_none_or(|oldest| {
                self.queue.contains(oldest) || hold.is_some_and(|hold| hold.owner == *oldest)
            }),
        };
        (reply, handed)
    }

    fn force_release(&mut self, caller: &Caller, now: StoreTime) -> (Reply, Option<Handed>) {
        let key = self.key.take();
        let released = key.is_some();
        let former = match key {
            Some(Key {
                holder: KeyHolder::Held(hold),
                ..
            }) => Some(Former {
                owner: hold.owner,
                coordinator: hold.coordinator,
            }),
            _ => None,
        };
        if released {
            self.mint(caller, now);
        }
        let handed = self.hand_on(caller, now);
        let token = self.token.map(|record| record.last).unwrap_or_default();
        (
            Reply::Forced {
                former,
                released,
                token,
            },
            handed,
        )
    }

    fn set_value(&mut self, owner: &OwnerId, value: &Value) -> Reply {
        if let Some(Key {
            holder: KeyHolder::Held(hold),
            ..
        }) = &mut self.key
            && hold.owner == *owner
        {
            hold.value = value.clone();
            return Reply::ValueSet(true);
        }
        Reply::ValueSet(false)
    }

    fn view(&self, waiters: usize, now: StoreTime) -> NameView {
        NameView {
            holder: self.holder(now),
            closed_for: match &self.key {
                Some(Key {
                    holder: KeyHolder::Closed,
                    expires_at,
                }) => Some(now.until(*expires_at)),
                _ => None,
            },
            token: self.token.map(|record| record.last),
            waiters: self
                .queue
                .iter()
                .take(waiters)
                .map(|waiter| WaiterView {
                    session: waiter.acquire.session,
                    client_name: waiter.acquire.client_name.clone(),
                    coordinator: waiter.coordinator.clone(),
                    since: waiter.since,
                })
                .collect(),
            waiter_count: self.queue.len() as u64,
        }
    }

    /// Grants a free lock to the next living waiter. For another coordinator's waiter the grant stands only for the
    /// claim time, until that coordinator confirms it.
    fn hand_on(&mut self, caller: &Caller, now: StoreTime) -> Option<Handed> {
        if self.key.is_some() {
            return None;
        }
        let waiter = self.queue.take_next(now)?;
        let coordinator = waiter.coordinator;
        let token = self.grant(caller, &waiter.acquire, &coordinator, now);
        Some(Handed {
            owner: waiter.acquire.owner,
            token,
            coordinator,
            of_session: waiter.acquire.session.is_some(),
        })
    }

    fn grant(
        &mut self,
        caller: &Caller,
        acquire: &Acquire,
        coordinator: &CoordinatorId,
        now: StoreTime,
    ) -> FencingToken {
        let token = self.mint(caller, now);
        let confirmed = *coordinator == caller.coordinator;
        let lasts = if confirmed {
            acquire.ttl + acquire.lock_delay
        } else {
            CLAIM_TIME
        };
        self.key = Some(Key {
            holder: KeyHolder::Held(Box::new(Hold {
                owner: acquire.owner,
                session: acquire.session,
                client_name: acquire.client_name.clone(),
                coordinator: coordinator.clone(),
                token,
                acquired_at: now,
                lock_delay: acquire.lock_delay,
                confirmed,
                value: acquire.value.clone(),
            })),
            expires_at: now.after(lasts),
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

    fn hold_of(&self, owner: &OwnerId) -> Option<&Hold> {
        match &self.key {
            Some(Key {
                holder: KeyHolder::Held(hold),
                ..
            }) if hold.owner == *owner => Some(hold),
            _ => None,
        }
    }

    fn holder(&self, now: StoreTime) -> Option<HolderView> {
        let key = self.key.as_ref()?;
        match &key.holder {
            KeyHolder::Held(hold) => Some(HolderView::Ours(Box::new(
                hold.view(now.until(key.expires_at)),
            ))),
            KeyHolder::Closed => None,
        }
    }

    fn expires_in(&self, now: StoreTime) -> Option<Duration> {
        self.key.as_ref().map(|key| now.until(key.expires_at))
    }
}
