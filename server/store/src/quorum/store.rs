//! Store on several independent masters.

use std::sync::{Arc, OnceLock, atomic::AtomicI64};

use futures_util::future::{BoxFuture, ready};
use leasehold_core::failure::StoreError;
use leasehold_core::{
    command::{Caller, Command, End, One, Op, Reply},
    deadlock::Publication,
    ended::EndChange,
    id::{FencingToken, OwnerId, WaiterNumber},
    mode::Mode,
    name::{Invalid, LockName},
    view::{NameEdges, NameView},
};
use tokio::sync::{mpsc, watch};
use tokio_util::task::AbortOnDropHandle;

use super::{
    board::Board,
    master::Master,
    round::Masters,
    script::{self, Ask},
    standing::Terms,
    undoing::Undoing,
    waiting::{Inner, Lines},
    wake,
};
use crate::{
    Status, StoreUrlError,
    feed::{self, Feed},
    redis::{
        keys::{Keys, wake_channel},
        link::{Link, LinkOptions, Listening},
        url::QuorumUrl,
    },
    store::{
        Answer, EndedSessions, Exchanged, Listed, LockStore, Observer, Options, Stamped, WakeUp,
    },
};

/// Most unprocessed wake-ups; more are dropped, because a refresh finds the same.
const WAKE_UPS: usize = 1024;

/// Locks on several independent masters. The connections close when it is dropped.
pub struct QuorumStore {
    inner: Arc<Inner>,
    /// Dropped with this, which ends them.
    _tasks: Vec<AbortOnDropHandle<()>>,
    _listening: Vec<Listening>,
}

impl QuorumStore {
    /// Starts to connect; commands fail until [`LockStore::status`] is up.
    pub fn open(options: Options) -> Result<(Self, mpsc::Receiver<WakeUp>), StoreUrlError> {
        let QuorumUrl { masters, durable } = QuorumUrl::parse(&options.url, options.tls)?;
        // Prepares now, because a command's time runs from before its encoding.
        Keys::prepare();
        let (messages, incoming) = mpsc::channel(WAKE_UPS);
        let channel = wake_channel(&options.coordinator).into_bytes();
        let mut listening = Vec::new();
        let all = masters.into_iter().enumerate().map(|(place, target)| {
            let link = Link::start(
                target,
                LinkOptions {
                    // One, because the worth of answers is known for each connection.
                    connections: 1,
                    command_timeout: options.timeout,
                    scripts: script::texts(),
                    meter: options.meter.clone(),
                    ..LinkOptions::default()
                },
            );
            listening.push(link.subscribe(channel.clone(), messages.clone(), Some));
            Arc::new(Master::new(place, link, options.meter.clone()))
        });
        let masters = Arc::new(Masters {
            all: all.collect(),
            keys: Keys::new(&options.key_prefix),
            patience: options.timeout,
            terms: Terms {
                hold: options.max_hold,
                durable,
            },
            floor: AtomicI64::new(0),
            undoing: Undoing::default(),
        });
        let inner = Arc::new(Inner {
            masters: Arc::clone(&masters),
            board: Board::new(),
            lines: Lines::default(),
            observer: OnceLock::new(),
        });
        let mut tasks = Vec::new();
        for master in &masters.all {
            let kept = Arc::clone(&inner).keep(Arc::clone(master));
            tasks.push(AbortOnDropHandle::new(tokio::spawn(kept)));
        }
        let (wake_ups, receiver) = mpsc::channel(WAKE_UPS);
        let read = wake::read(Arc::clone(&inner), incoming, wake_ups);
        tasks.push(AbortOnDropHandle::new(tokio::spawn(read)));
        let store = Self {
            inner,
            _tasks: tasks,
            _listening: listening,
        };
        Ok((store, receiver))
    }
}

impl Inner {
    fn release(
        self: &Arc<Self>,
        name: LockName,
        caller: &Caller,
        owner: OwnerId,
        end: End,
        answer: Answer,
    ) {
        let has_left = self.leave(&name, &owner);
        let ending = self.masters.end(&name, caller, owner, end);
        if has_left {
            // It may have been granted already, and queued again.
            let (inner, of) = (Arc::clone(self), name.clone());
            tokio::spawn(async move {
                let ended = ending.outcome().await.result;
                let reply = ended.map(|stamped| stamped.executed.reply);
                if matches!(reply, Ok(Reply::Released { held: true, .. })) {
                    inner.after_release(&of);
                }
            });
            let reply = Reply::Released {
                held: false,
                waited: true,
                closed_for: None,
            };
            return self.tell(&name, answer, Ok(self.stamp(reply)));
        }
        // This follows the release at every master.
        self.after_release(&name);
        let inner = Arc::clone(self);
        let of = name.clone();
        self.answer(name, answer, async move {
            let ended = ending.outcome().await;
            inner.lines.others_wait(&of, ended.others_wait);
            ended.result
        });
    }

    async fn view(
        self: Arc<Self>,
        name: LockName,
        (waiters, value_bytes): (usize, usize),
    ) -> Result<Stamped, StoreError> {
        let seen = self.masters.look(&name).await?;
        let holder = seen.holder();
        let (waiters, waiter_count) = self.lines.waiters(&name, waiters);
        let view = NameView {
            holder_count: u64::from(holder.is_some()),
            holders: holder.into_iter().collect(),
            closed_for: seen.closed_for(),
            limit: None,
            permits_taken: 0,
            token: seen.token(),
            waiters,
            waiter_count,
        };
        let view = view.with_values_of(value_bytes);
        Ok(seen.round.stamp(Reply::Seen(Box::new(view))))
    }

    fn force(
        self: &Arc<Self>,
        name: LockName,
        caller: Caller,
        only: Option<FencingToken>,
        answer: Answer,
    ) {
        let (inner, of) = (Arc::clone(self), name.clone());
        self.answer(name, answer, async move {
            let forced = inner.masters.force(&of, &caller, only).await;
            inner.draw_lots(of);
            forced
        });
    }

    /// Removes a waiter of this coordinator. It blocked nobody: what the next one waits for is the holder.
    async fn forced_waiter(
        self: Arc<Self>,
        name: LockName,
        number: WaiterNumber,
    ) -> Result<Stamped, StoreError> {
        // First, so that nobody is removed unless the answer says so.
        let seen = self.masters.look(&name).await?;
        let former = self.force_waiter(&name, number);
        Ok(seen.round.stamp(Reply::Forced {
            released: former.is_some(),
            former: former.into_iter().collect(),
            token: seen.token().unwrap_or_default(),
        }))
    }

    async fn edges(self: Arc<Self>, name: LockName) -> Result<Stamped, StoreError> {
        let seen = self.masters.look(&name).await?;
        let edges = NameEdges {
            holders: seen.edge().into_iter().collect(),
            waiters: self.lines.edges(&name),
            limit: None,
            complete: true,
        };
        Ok(seen.round.stamp(Reply::Edges(Box::new(edges))))
    }
}

/// Returns the refusal of a feature, with the reason.
fn not_offered(what: &'static str, why: &'static str) -> StoreError {
    StoreError::NotOffered { what, why }
}

/// Reason why modes with several holders are not offered.
const ALONE: &str = "over several independent masters a lock is held exclusively, as a majority can agree on one holder \
                     but not on how many there are; use redis://, redis+sentinel:// or redis+cluster://";

impl LockStore for QuorumStore {
    fn send(&self, command: Command, answer: Answer) {
        let inner = &self.inner;
        let masters = &inner.masters;
        let Command { name, caller, op } = command;
        match op {
            Op::Acquire(acquire) => match self.offers_mode(acquire.mode) {
                Ok(()) => inner.line_up(name, caller, acquire, answer),
                Err(error) => answer.give(Err(error)),
            },
            // No fail-over makes a majority forget a grant, so its owner id has no other.
            Op::Renew { owner, ttl, .. } => {
                let renewal = masters.renew(&name, caller, owner, ttl);
                inner.answer(name, answer, renewal.outcome());
            }
            Op::Resume(resume) => inner.resume(name, caller, resume, answer),
            Op::Release { owner, end } => inner.release(name, &caller, owner, end, answer),
            Op::Refresh { oldest } => {
                let refreshed = Arc::clone(inner).refresh(name.clone(), oldest);
                inner.answer(name, answer, refreshed);
            }
            Op::ForceRelease => inner.force(name, caller, None, answer),
            Op::ForceReleaseOne(One::Holder(token)) => {
                inner.force(name, caller, Some(token), answer);
            }
            Op::ForceReleaseOne(One::Waiter(number)) => {
                let forced = Arc::clone(inner).forced_waiter(name.clone(), number);
                inner.answer(name, answer, forced);
            }
            Op::RequestRelease { only, request } => {
                let masters = Arc::clone(masters);
                let asked = masters.request_release(name.clone(), caller, only, request);
                inner.answer(name, answer, asked);
            }
            Op::SetValue { owner, value } => {
                let round = masters.ask(&name, Ask::set_value(&owner, &value));
                inner.answer(name, answer, round.changed());
            }
            Op::SetCount { owner, count } => {
                let round = masters.ask(&name, Ask::set_count(&owner, count));
                inner.answer(name, answer, round.changed());
            }
            Op::Downgrade { .. } => {
                answer.give(Err(not_offered("to share a lock that is held", ALONE)));
            }
            Op::Reduce { .. } => {
                answer.give(Err(not_offered("to give permits back", ALONE)));
            }
            Op::View {
                waiters,
                value_bytes,
            } => {
                let view = Arc::clone(inner).view(name.clone(), (waiters, value_bytes));
                inner.answer(name, answer, view);
            }
            Op::Edges => {
                let edges = Arc::clone(inner).edges(name.clone());
                inner.answer(name, answer, edges);
            }
            Op::Look { .. } => answer.give(self.offers_feeds().and_then(|()| {
                Err(StoreError::Garbled {
                    reason: "there is no feed".to_owned(),
                })
            })),
        }
    }

    fn list<'a>(&'a self, prefix: &'a str, token: &'a str, size: usize) -> BoxFuture<'a, Listed> {
        Box::pin(self.inner.masters.list(prefix, token, size))
    }

    fn exchange(&self, mine: Arc<Publication>) -> BoxFuture<'_, Exchanged> {
        // A coordinator cannot see the waiters of another one, so it could not confirm that one's publication.
        Box::pin(ready(Ok(vec![mine])))
    }

    fn ended_sessions(&self, change: Option<EndChange>) -> BoxFuture<'_, EndedSessions> {
        Box::pin(self.inner.masters.ended_sessions(change))
    }

    fn check_name(&self, name: &LockName) -> Result<(), Invalid> {
        self.inner.masters.keys.check(name)
    }

    fn status(&self) -> watch::Receiver<Status> {
        self.inner.board.watch()
    }

    fn observe(&self, observer: Observer) {
        // Set once, when the coordinator starts.
        let _ = self.inner.observer.set(observer);
    }

    fn feed(&self) -> Feed {
        // Over at once: see `offers_feeds`.
        feed::open().0
    }

    fn offers_mode(&self, mode: Mode) -> Result<(), StoreError> {
        match mode {
            Mode::Exclusive => Ok(()),
            Mode::Shared => Err(not_offered("a shared lock", ALONE)),
            Mode::Semaphore(_) => Err(not_offered("a semaphore", ALONE)),
        }
    }

    fn offers_feeds(&self) -> Result<(), StoreError> {
        Err(not_offered(
            "to watch locks or observe elections",
            "several independent masters do not agree on an order of what happens; ask for the lock or the leader again",
        ))
    }
}

impl std::fmt::Debug for QuorumStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let links = self.inner.masters.all.iter().map(|master| &master.link);
        f.debug_list().entries(links).finish()
    }
}
