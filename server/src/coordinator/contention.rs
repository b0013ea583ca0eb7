//! The names that somebody waits for here: their queues in the store are kept alive, and what a lost message would have
//! told is found out.
//!
//! Each name is refreshed once a second, and as soon as what is in its way has expired. Pub/sub only makes this faster. One
//! task owns the names and their timers; what it asks the store is in `refresh.rs`.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use leasehold_core::{
    command::{Acquire, Loss, REFRESH_INTERVAL},
    deadlock::BlockedWait,
    id::{FencingToken, OwnerId},
    name::LockName,
    session::WaitEnd,
};
use leasehold_store::{LockStore, Status, WakeUp};
use tokio::{sync::mpsc, time::Instant};
use tokio_util::{
    sync::CancellationToken,
    time::{DelayQueue, delay_queue::Key},
};

use super::{
    Coordinator,
    deadlock::BlockedHere,
    inbox::Inbox,
    refresh::{Refreshed, confirm, refresh},
};
use crate::{
    limits::WaiterPlace,
    telemetry::{Level, Tracked, waits::WaitTimer},
};

/// Added to an expiry, which the store gives in whole milliseconds, so that a re-check finds it past.
const EXPIRY_SLACK: Duration = Duration::from_millis(2);

/// Where waiters are announced.
#[derive(Clone, Debug)]
pub struct Contention {
    messages: mpsc::UnboundedSender<(Message, Tracked)>,
    waiting: Level,
}

/// What the task is told, counted until it is seen to.
pub type Messages = mpsc::UnboundedReceiver<(Message, Tracked)>;

/// What the task is told. At most two messages for each waiter are under way, so the channel is bounded by the waiters.
#[derive(Debug)]
pub enum Message {
    /// An acquire waits.
    Waits {
        /// The lock.
        name: LockName,
        /// What was asked for.
        acquire: Arc<Acquire>,
        /// When what is in its way runs out, if that is known.
        expires_in: Option<Duration>,
    },
    /// It waits no more.
    Gone {
        /// The lock.
        name: LockName,
        /// The waiter.
        owner: OwnerId,
    },
    /// What is in the way of a name will be gone after a while.
    Recheck {
        /// The lock.
        name: LockName,
        /// How long that will take.
        after: Duration,
    },
    /// More waiters of a name can be granted it than one command does, whoever's waiters they are.
    Look {
        /// The lock.
        name: LockName,
    },
}

impl Contention {
    /// The handle, and what the task is given; what it has not seen to counts as `waiting`.
    pub fn new(waiting: Level) -> (Self, Messages) {
        let (messages, receiver) = mpsc::unbounded_channel();
        (Self { messages, waiting }, receiver)
    }

    fn tell(&self, message: Message) {
        // The task outlives every session; when it is gone the process is ending.
        let _ = self.messages.send((message, self.waiting.track()));
    }

    /// Has a name looked at when what is in its way will be gone, if anybody here waits for it.
    pub fn recheck(&self, name: &LockName, after: Duration) {
        self.tell(Message::Recheck {
            name: name.clone(),
            after,
        });
    }

    /// Has a name refreshed at once, whoever waits for it.
    pub fn look(&self, name: &LockName) {
        self.tell(Message::Look { name: name.clone() });
    }
}

/// A waiter that was announced, for as long as this lives.
#[derive(Debug)]
pub struct TrackedWaiter {
    coordinator: Coordinator,
    name: LockName,
    acquire: Arc<Acquire>,
    timer: WaitTimer,
    /// Known to the detector of deadlocks.
    blocked: Option<BlockedHere>,
    _tracked: Tracked,
    _place: WaiterPlace,
}

impl Coordinator {
    /// Announces a waiter, with what is in its way for so long. One that was resumed has no place yet, and waits anyway.
    pub fn track(
        &self,
        name: LockName,
        acquire: Arc<Acquire>,
        expires_in: Option<Duration>,
        place: Option<WaiterPlace>,
    ) -> TrackedWaiter {
        self.contention().tell(Message::Waits {
            name: name.clone(),
            acquire: Arc::clone(&acquire),
            expires_in,
        });
        TrackedWaiter {
            coordinator: self.clone(),
            timer: self.metrics().clocks.wait(),
            blocked: None,
            _tracked: self.metrics().waiters.track(),
            _place: place.unwrap_or_else(|| self.limits().waiter_again(&name)),
            name,
            acquire,
        }
    }
}

impl TrackedWaiter {
    /// Tells the detector of deadlocks that the actor which waits holds something meanwhile; `inbox` hears of a deadlock.
    pub fn watch(&mut self, caller: &Arc<str>, inbox: &Arc<Inbox>) {
        if let Some(session) = self.acquire.session {
            let wait = BlockedWait {
                session,
                actor: self.acquire.actor,
                ticket: self.acquire.owner,
                name: self.name.clone(),
            };
            let blocked = self.coordinator.blocked();
            self.blocked = Some(blocked.add(caller, wait, Arc::clone(inbox)));
        }
    }

    /// Withdraws the waiter.
    pub fn ended(mut self, end: WaitEnd) {
        self.timer.set_end(end);
    }
}

impl Drop for TrackedWaiter {
    fn drop(&mut self) {
        self.coordinator.contention().tell(Message::Gone {
            name: self.name.clone(),
            owner: self.acquire.owner,
        });
    }
}

/// One contended name.
struct Contended {
    /// The waiters here, in the order in which they joined.
    waiters: BTreeMap<u64, Arc<Acquire>>,
    places: HashMap<OwnerId, u64>,
    timer: Key,
    /// When the timer fires. It only moves nearer, but for a refresh that has ended.
    due: Instant,
    /// Whether a refresh is under way, and whether another is to follow at once.
    refreshing: bool,
    again: bool,
    /// Whether waiters may be missing from the queue in the store though the oldest is not.
    rejoin: bool,
    _tracked: Tracked,
}

/// What the task asked the store for has been seen to.
enum Finished {
    Refreshed(LockName, Refreshed),
    /// Whether the waiter is surely in the queue, or has been granted.
    Confirmed(LockName, bool),
}

struct Task {
    coordinator: Coordinator,
    names: HashMap<LockName, Contended>,
    timers: DelayQueue<LockName>,
    under_way: FuturesUnordered<BoxFuture<'static, Finished>>,
    /// Grants to waiters whose announcement is still under way.
    early: HashMap<OwnerId, FencingToken>,
    joined: u64,
}

/// Runs until it is stopped.
pub async fn run(
    coordinator: Coordinator,
    mut messages: Messages,
    mut wake_ups: mpsc::Receiver<WakeUp>,
    stop: CancellationToken,
) {
    let mut status = coordinator.store().status();
    let mut task = Task {
        coordinator,
        names: HashMap::new(),
        timers: DelayQueue::new(),
        under_way: FuturesUnordered::new(),
        early: HashMap::new(),
        joined: 0,
    };
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            Some((message, _tracked)) = messages.recv() => task.on_message(message),
            Some(wake_up) = wake_ups.recv() => task.on_wake_up(wake_up),
            Some(expired) = task.timers.next() => task.on_timer(expired.into_inner()),
            Some(finished) = task.under_way.next() => task.on_finished(finished),
            Ok(()) = status.changed() => {
                if matches!(*status.borrow_and_update(), Status::Up { .. }) {
                    task.recheck_all();
                }
            }
        }
    }
}

impl Task {
    fn on_message(&mut self, message: Message) {
        match message {
            Message::Waits {
                name,
                acquire,
                expires_in,
            } => self.on_waits(name, acquire, expires_in),
            Message::Gone { name, owner } => self.on_gone(&name, &owner),
            Message::Recheck { name, after } => self.schedule(&name, after + EXPIRY_SLACK),
            Message::Look { name } => self.look(name),
        }
    }

    fn on_waits(&mut self, name: LockName, acquire: Arc<Acquire>, expires_in: Option<Duration>) {
        self.joined += 1;
        if !self.names.contains_key(&name) {
            let contended = Contended {
                waiters: BTreeMap::new(),
                places: HashMap::new(),
                timer: self.timers.insert(name.clone(), REFRESH_INTERVAL),
                due: Instant::now() + REFRESH_INTERVAL,
                refreshing: false,
                again: false,
                rejoin: false,
                _tracked: self.coordinator.metrics().contended_names.track(),
            };
            self.names.insert(name.clone(), contended);
        }
        if let Some(contended) = self.names.get_mut(&name) {
            contended.places.insert(acquire.owner, self.joined);
            contended.waiters.insert(self.joined, Arc::clone(&acquire));
        }
        if let Some(token) = self.early.remove(&acquire.owner) {
            self.confirm(name, acquire, token);
        } else if let Some(expires_in) = expires_in {
            self.schedule(&name, expires_in + EXPIRY_SLACK);
        }
    }

    fn on_gone(&mut self, name: &LockName, owner: &OwnerId) {
        let Some(contended) = self.names.get_mut(name) else {
            return;
        };
        if let Some(place) = contended.places.remove(owner) {
            contended.waiters.remove(&place);
        }
        if contended.waiters.is_empty()
            && let Some(contended) = self.names.remove(name)
        {
            self.timers.try_remove(&contended.timer);
        }
    }

    /// Has the name refreshed after this long, unless it is refreshed sooner anyway.
    fn schedule(&mut self, name: &LockName, after: Duration) {
        let Some(contended) = self.names.get_mut(name) else {
            return;
        };
        let due = Instant::now() + after.min(REFRESH_INTERVAL);
        if due < contended.due {
            contended.due = due;
            self.timers.reset_at(&contended.timer, due);
        }
    }

    fn recheck_all(&mut self) {
        let names: Vec<LockName> = self.names.keys().cloned().collect();
        for name in names {
            self.schedule(&name, Duration::ZERO);
        }
    }

    fn on_timer(&mut self, name: LockName) {
        let registry = self.coordinator.registry();
        self.early.retain(|owner, _| registry.waits(owner));
        let Some(contended) = self.names.get_mut(&name) else {
            return;
        };
        // The timer has fired: put it back.
        contended.timer = self.timers.insert(name.clone(), REFRESH_INTERVAL);
        contended.due = Instant::now() + REFRESH_INTERVAL;
        if contended.refreshing {
            contended.again = true;
            return;
        }
        contended.refreshing = true;
        let rejoin = std::mem::take(&mut contended.rejoin);
        let waiters: Vec<Arc<Acquire>> = contended.waiters.values().cloned().collect();
        let coordinator = self.coordinator.clone();
        self.under_way.push(
            async move {
                let refreshed = refresh(&coordinator, &name, waiters, rejoin).await;
                Finished::Refreshed(name, refreshed)
            }
            .boxed(),
        );
    }

    fn on_finished(&mut self, finished: Finished) {
        match finished {
            Finished::Refreshed(name, refreshed) => {
                let Some(contended) = self.names.get_mut(&name) else {
                    return;
                };
                contended.refreshing = false;
                contended.rejoin |= !refreshed.all_joined;
                if std::mem::take(&mut contended.again) {
                    self.schedule(&name, Duration::ZERO);
                } else if let Some(expires_in) = refreshed.expires_in {
                    self.schedule(&name, expires_in + EXPIRY_SLACK);
                }
            }
            Finished::Confirmed(name, settled) => {
                if let Some(contended) = self.names.get_mut(&name) {
                    contended.rejoin |= !settled;
                }
            }
        }
    }

    fn on_wake_up(&mut self, wake_up: WakeUp) {
        match wake_up {
            WakeUp::Missed { name } => self.schedule(&name, Duration::ZERO),
            WakeUp::Forced { owner, .. } => {
                self.coordinator.registry().take(&owner, Loss::Forced);
            }
            WakeUp::Resumed { owner, .. } => {
                self.coordinator.registry().moved(&owner);
            }
            WakeUp::Granted {
                name,
                owner,
                token,
                of_session,
            } => {
                self.coordinator.learn(token);
                // A message that comes late or twice tells of a waiter that has been seen to.
                if self.coordinator.registry().waits(&owner) {
                    let waiter = self.names.get(&name).and_then(|contended| {
                        contended
                            .waiters
                            .get(contended.places.get(&owner)?)
                            .cloned()
                    });
                    match waiter {
                        Some(acquire) => self.confirm(name, acquire, token),
                        None => {
                            self.early.insert(owner, token);
                        }
                    }
                } else if of_session && !self.coordinator.registry().knows(&owner) {
                    self.look(name);
                }
            }
        }
    }

    /// Asks the store about a grant that nobody here knows of (a message is a hint, and no ground to release anything), or
    /// to hand on what is left.
    fn look(&mut self, name: LockName) {
        let coordinator = self.coordinator.clone();
        self.under_way.push(
            async move {
                refresh(&coordinator, &name, Vec::new(), false).await;
                Finished::Confirmed(name, true)
            }
            .boxed(),
        );
    }

    fn confirm(&mut self, name: LockName, acquire: Arc<Acquire>, token: FencingToken) {
        let coordinator = self.coordinator.clone();
        self.under_way.push(
            async move {
                let settled = confirm(&coordinator, &name, &acquire, token).await;
                Finished::Confirmed(name, settled)
            }
            .boxed(),
        );
    }
}
