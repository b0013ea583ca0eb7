//! The names that somebody waits for here: their queues in the store are kept alive, and what a lost message would have
//! told is found out.
//!
//! Each name is refreshed once a second, and as soon as what is in its way has expired. Pub/sub only makes this faster.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use leasehold_core::{
    command::{Acquire, Loss, Op, REFRESH_INTERVAL, Reply},
    id::{FencingToken, OwnerId},
    name::LockName,
};
use leasehold_store::{LockStore, Stamped, Status, StoreError, WakeUp};
use tokio::sync::mpsc;
use tokio_util::{
    sync::CancellationToken,
    time::{DelayQueue, delay_queue::Key},
};

use super::{Coordinator, registry::Delivery};
use crate::telemetry::Tracked;

/// Added to an expiry, which the store gives in whole milliseconds, so that a re-check finds it past.
const EXPIRY_SLACK: Duration = Duration::from_millis(2);

/// Where waiters are announced.
#[derive(Clone, Debug)]
pub struct Contention {
    messages: mpsc::UnboundedSender<Message>,
}

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
}

impl Contention {
    /// The handle, and what the task is given.
    pub fn new() -> (Self, mpsc::UnboundedReceiver<Message>) {
        let (messages, receiver) = mpsc::unbounded_channel();
        (Self { messages }, receiver)
    }

    /// Has a name looked at when what is in its way will be gone, if anybody here waits for it.
    pub fn recheck(&self, name: &LockName, after: Duration) {
        let _ = self.messages.send(Message::Recheck {
            name: name.clone(),
            after,
        });
    }
}

/// An acquire that waits, for as long as this lives.
#[derive(Debug)]
pub struct Waiting {
    coordinator: Coordinator,
    name: LockName,
    owner: OwnerId,
}

impl Waiting {
    /// Announces a queued acquire.
    pub fn new(
        coordinator: Coordinator,
        name: LockName,
        acquire: Arc<Acquire>,
        expires_in: Option<Duration>,
    ) -> Self {
        let owner = acquire.owner;
        let message = Message::Waits {
            name: name.clone(),
            acquire,
            expires_in,
        };
        // The task outlives every session; when it is gone the process is ending.
        let _ = coordinator.contention().messages.send(message);
        Self {
            coordinator,
            name,
            owner,
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let message = Message::Gone {
            name: self.name.clone(),
            owner: self.owner,
        };
        let _ = self.coordinator.contention().messages.send(message);
    }
}

/// One contended name.
struct Contended {
    /// The waiters here, in the order in which they joined.
    waiters: BTreeMap<u64, Arc<Acquire>>,
    places: HashMap<OwnerId, u64>,
    timer: Key,
    /// Whether a refresh is under way.
    refreshing: bool,
    _tracked: Tracked,
}

struct Task {
    coordinator: Coordinator,
    names: HashMap<LockName, Contended>,
    timers: DelayQueue<LockName>,
    refreshes: FuturesUnordered<BoxFuture<'static, (LockName, Option<Duration>)>>,
    joined: u64,
}

/// Runs until it is stopped.
pub async fn run(
    coordinator: Coordinator,
    mut messages: mpsc::UnboundedReceiver<Message>,
    mut wake_ups: mpsc::Receiver<WakeUp>,
    stop: CancellationToken,
) {
    let mut status = coordinator.store().status();
    let mut task = Task {
        coordinator,
        names: HashMap::new(),
        timers: DelayQueue::new(),
        refreshes: FuturesUnordered::new(),
        joined: 0,
    };
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            Some(message) = messages.recv() => task.on_message(message),
            Some(wake_up) = wake_ups.recv() => task.on_wake_up(wake_up),
            Some(expired) = task.timers.next() => task.on_timer(expired.into_inner()),
            Some((name, next)) = task.refreshes.next() => task.on_refreshed(&name, next),
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
            Message::Recheck { name, after } => self.schedule(&name, Some(after)),
        }
    }

    fn on_waits(&mut self, name: LockName, acquire: Arc<Acquire>, expires_in: Option<Duration>) {
        self.joined += 1;
        if !self.names.contains_key(&name) {
            let contended = Contended {
                waiters: BTreeMap::new(),
                places: HashMap::new(),
                timer: self.timers.insert(name.clone(), REFRESH_INTERVAL),
                refreshing: false,
                _tracked: self.coordinator.metrics().contended_names.track(),
            };
            self.names.insert(name.clone(), contended);
        }
        if let Some(contended) = self.names.get_mut(&name) {
            contended.places.insert(acquire.owner, self.joined);
            contended.waiters.insert(self.joined, acquire);
            if contended.waiters.len() == 1 {
                self.schedule(&name, expires_in);
            }
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

    /// Has the name refreshed after its expiry, or after the refresh interval if that is sooner.
    fn schedule(&mut self, name: &LockName, expires_in: Option<Duration>) {
        if let Some(contended) = self.names.get_mut(name)
            && !contended.refreshing
        {
            let after = expires_in.map_or(REFRESH_INTERVAL, |expiry| {
                (expiry + EXPIRY_SLACK).min(REFRESH_INTERVAL)
            });
            self.timers.reset(&contended.timer, after);
        }
    }

    fn recheck_all(&mut self) {
        let names: Vec<LockName> = self.names.keys().cloned().collect();
        for name in names {
            self.schedule(&name, Some(Duration::ZERO));
        }
    }

    fn on_timer(&mut self, name: LockName) {
        let Some(contended) = self.names.get_mut(&name) else {
            return;
        };
        // The timer has fired: put it back, far enough for the refresh to end first.
        contended.timer = self.timers.insert(name.clone(), REFRESH_INTERVAL);
        if contended.refreshing {
            return;
        }
        contended.refreshing = true;
        let waiters: Vec<Arc<Acquire>> = contended.waiters.values().cloned().collect();
        let coordinator = self.coordinator.clone();
        self.refreshes.push(
            async move {
                let next = refresh(&coordinator, &name, waiters).await;
                (name, next)
            }
            .boxed(),
        );
    }

    fn on_refreshed(&mut self, name: &LockName, next: Option<Duration>) {
        if let Some(contended) = self.names.get_mut(name) {
            contended.refreshing = false;
            self.schedule(name, next);
        }
    }

    fn on_wake_up(&mut self, wake_up: WakeUp) {
        match wake_up {
            WakeUp::Forced { name, owner } => {
                self.coordinator
                    .registry()
                    .take(&name, &owner, Loss::Forced);
            }
            WakeUp::Granted { name, owner, token } => {
                let acquire = self.names.get(&name).and_then(|contended| {
                    contended
                        .waiters
                        .get(contended.places.get(&owner)?)
                        .cloned()
                });
                let coordinator = self.coordinator.clone();
                self.refreshes.push(
                    async move {
                        coordinator.learn(token);
                        match acquire {
                            Some(acquire) => confirm(&coordinator, &name, &acquire, token).await,
                            // It waits no more, or its announcement is still under way: then a refresh will tell.
                            None if coordinator.registry().knows(&owner) => {}
                            None => coordinator.discard(&name, owner),
                        }
                        (name, None)
                    }
                    .boxed(),
                );
            }
        }
    }
}

/// Refreshes a name and sees to what that shows; gives when what is in its way expires.
async fn refresh(
    coordinator: &Coordinator,
    name: &LockName,
    waiters: Vec<Arc<Acquire>>,
) -> Option<Duration> {
    let oldest = waiters
        .iter()
        .map(|acquire| acquire.owner)
        .find(|owner| coordinator.registry().waits(owner));
    let stamped = match coordinator.execute(name, Op::Refresh { oldest }).await {
        Ok(stamped) => stamped,
        // The store's status tells when it is back; until then the interval does.
        Err(_) => return None,
    };
    let Reply::Refreshed {
        current,
        expires_in,
        attached,
    } = stamped.executed.reply
    else {
        return None;
    };
    if let Some(current) = current {
        let waiter = waiters
            .iter()
            .find(|acquire| acquire.owner == current.owner);
        if let Some(acquire) = waiter
            && coordinator.registry().waits(&current.owner)
        {
            confirm(coordinator, name, acquire, current.token).await;
        } else if current.of_session && !coordinator.registry().knows(&current.owner) {
            coordinator.discard(name, current.owner);
        }
    }
    if !attached {
        rejoin(coordinator, name, &waiters).await;
    }
    expires_in
}

/// Makes a hand-off from elsewhere last for its TTL, and gives it to its waiter. If it has run out already, the waiter
/// joins the queue again.
async fn confirm(
    coordinator: &Coordinator,
    name: &LockName,
    acquire: &Arc<Acquire>,
    token: FencingToken,
) {
    let op = Op::Renew {
        owner: acquire.owner,
        ttl: acquire.ttl,
    };
    let Ok(Stamped { executed, sent_at }) = coordinator.execute(name, op).await else {
        return;
    };
    match executed.reply {
        Reply::Renewed => {
            coordinator
                .registry()
                .deliver(&acquire.owner, Delivery { token, sent_at });
        }
        _ => rejoin(coordinator, name, std::slice::from_ref(acquire)).await,
    }
}

/// Has waiters that the store has forgotten, or never knew of, join the queue again, in their order here. Those that are
/// in it stay where they are.
async fn rejoin(coordinator: &Coordinator, name: &LockName, waiters: &[Arc<Acquire>]) {
    let waiting: Vec<&Arc<Acquire>> = waiters
        .iter()
        .filter(|acquire| coordinator.registry().waits(&acquire.owner))
        .collect();
    let commands = waiting
        .iter()
        .map(|acquire| coordinator.command(name.clone(), Op::Acquire(Acquire::clone(acquire))))
        .collect();
    let results: Vec<Result<Stamped, StoreError>> = coordinator.store().execute_all(commands).await;
    for (acquire, result) in waiting.into_iter().zip(results) {
        let Ok(stamped) = result else {
            continue;
        };
        if let Reply::Granted { token } = stamped.executed.reply {
            let delivery = Delivery {
                token,
                sent_at: stamped.sent_at,
            };
            coordinator.registry().deliver(&acquire.owner, delivery);
        }
        // It stopped waiting while its acquire was on the way, and may have left the queue before it arrived. One that is
        // still known has been delivered, or will be released by whoever gave it up.
        if !coordinator.registry().knows(&acquire.owner) {
            coordinator.discard(name, acquire.owner);
        }
    }
}
