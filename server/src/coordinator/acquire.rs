//! One acquire, from asking to holding.

use std::{sync::Arc, time::Duration};

use leasehold_core::{
    command::{Acquire, End, Op, Reply},
    deadlock::{BlockedWait, Deadlock},
    id::{Actor, OwnerId, SessionId},
    name::LockName,
    time::Moment,
    view::HolderView,
};
use leasehold_store::{Answer, LockStore, Stamped, StoreError, clock};
use tokio::{sync::oneshot, time::Instant};

use super::{
    Coordinator,
    contention::Waiting,
    deadlock::BlockedHere,
    hold::{Claim, Hold, OnDrop, Places},
    registry::Delivery,
    unexpected,
};
use crate::{
    limits::WaiterPlace,
    status::Refusal,
    telemetry::{
        Tracked,
        waits::{WaitEnd, WaitTimer},
    },
};

/// How long to wait for the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Not at all.
    No,
    /// For so long.
    For(Duration),
    /// For as long as it takes.
    Forever,
}

impl Wait {
    /// From what the wire says, where unset means `default`.
    pub fn from_wire(wait: Option<Duration>, default: Self) -> Self {
        match wait {
            None => default,
            Some(Duration::ZERO) => Self::No,
            Some(wait) => Self::For(wait),
        }
    }

    /// What is left of it when it has waited for so long.
    #[must_use]
    pub fn after(self, waited: Duration) -> Self {
        match self {
            Self::For(wait) => Self::For(wait.saturating_sub(waited)),
            Self::No | Self::Forever => self,
        }
    }
}

/// How an acquire ended.
#[derive(Debug)]
pub enum Acquired<Granted = Hold> {
    /// The lock is held.
    Granted(Granted),
    /// It is not free, and the acquire did not want to wait.
    Busy(Option<HolderView>),
    /// It did not come free in time.
    TimedOut(Option<HolderView>),
    /// It was cancelled.
    Cancelled,
    /// Another stream resumed its place: what becomes of it is told there.
    Moved,
    /// It was granted, and the grant does not count: why.
    Failed(StoreError),
    /// Those who hold or wait for the semaphore agree on another limit.
    OtherLimit {
        /// The lock.
        name: LockName,
        /// The limit in force.
        limit: u32,
    },
    /// As many wait for it as may, or it was refused for another limit.
    Refused(Box<Refusal>),
    /// It would have waited for ever: what it was in the middle of.
    Deadlocked(Box<Deadlock>),
}

/// An acquire that was sent. Dropping it ends in the background whatever it came to.
#[derive(Debug)]
pub struct Asked {
    claim: Claim,
    acquire: Acquire,
    wait: Wait,
    started: Instant,
    /// Where it is measured.
    since: Option<Moment>,
    holding: Option<Arc<str>>,
    place: Option<WaiterPlace>,
}

/// What the store said to an acquire.
#[derive(Debug)]
pub enum Answered {
    /// The lock is held.
    Granted(Hold),
    /// It is not free, and the acquire did not want to wait.
    Busy(Option<HolderView>),
    /// It waits for its turn.
    Queued(InLine),
    /// It was refused, without a trace: see [`Acquired::OtherLimit`].
    OtherLimit {
        /// The lock.
        name: LockName,
        /// The limit in force.
        limit: u32,
    },
}

/// An acquire that waits for its turn. Dropping it leaves the queue in the background.
#[derive(Debug)]
pub struct InLine {
    claim: Claim,
    position: u64,
    /// When it has waited for as long as it wanted to.
    until: Option<Instant>,
    delivery: oneshot::Receiver<Delivery>,
    /// Known to the detector of deadlocks.
    blocked: Option<BlockedHere>,
    timer: WaitTimer,
    _waiting: Waiting,
    _tracked: Tracked,
    _place: WaiterPlace,
}

impl Coordinator {
    /// The place that an acquire needs among the waiters of a name, if it is to wait at all.
    ///
    /// # Errors
    ///
    /// If as many wait as may.
    pub fn place(&self, name: &LockName, wait: Wait) -> Result<Option<WaiterPlace>, Refusal> {
        match wait {
            Wait::No => Ok(None),
            Wait::For(_) | Wait::Forever => self.limits().waiter(name).map(Some),
        }
    }

    /// Sends an acquire that has its [`place`](Self::place). `holding` names the caller if its actor holds something while it
    /// waits, and so may be part of a deadlock.
    pub fn ask(
        &self,
        (name, place): (LockName, Option<WaiterPlace>),
        acquire: Acquire,
        wait: Wait,
        holding: Option<Arc<str>>,
        answer: Answer,
    ) -> Asked {
        self.registry().ask(acquire.owner);
        let claim = Claim {
            coordinator: self.clone(),
            name: name.clone(),
            owner: acquire.owner,
            ttl: acquire.ttl,
            lock_delay: acquire.lock_delay,
            // It may wait for its turn for about as long as it may take.
            may_arrive_until: Some(clock::now().after(self.shared.store_timeout * 3)),
            on_drop: OnDrop::Release(End::Clean),
            place: None,
        };
        let asked = Asked {
            claim,
            acquire: acquire.clone(),
            wait,
            started: Instant::now(),
            since: self.metrics().clocks.begin(),
            holding,
            place,
        };
        let command = self.command(name, Op::Acquire(acquire));
        self.store().send(command, answer);
        asked
    }

    /// Takes a lock, and waits for it as long as `wait` says; `queued` is told when it has to.
    ///
    /// May be dropped at any point: what the store knows of it by then is released in the background.
    pub async fn acquire(
        &self,
        name: LockName,
        acquire: Acquire,
        wait: Wait,
        holding: Option<Arc<str>>,
        queued: impl FnOnce(&InLine),
    ) -> Result<Acquired, StoreError> {
        let place = match self.place(&name, wait) {
            Ok(place) => place,
            Err(refusal) => return Ok(Acquired::Refused(Box::new(refusal))),
        };
        let (answer, answered) = oneshot::channel();
        let asked = self.ask((name, place), acquire, wait, holding, Answer::once(answer));
        // An answer always comes.
        let result = answered.await.map_err(|_| unexpected("acquire"))?;
        Ok(match asked.answered(result)? {
            Answered::Granted(hold) => Acquired::Granted(hold),
            Answered::Busy(holder) => Acquired::Busy(holder),
            Answered::OtherLimit { name, limit } => Acquired::OtherLimit { name, limit },
            Answered::Queued(in_line) => {
                queued(&in_line);
                // Nothing but dropping this call cancels it.
                let (_cancel, cancelled) = oneshot::channel();
                in_line.wait(cancelled).await
            }
        })
    }
}

impl Asked {
    /// Takes the store's answer in.
    pub fn answered(mut self, result: Result<Stamped, StoreError>) -> Result<Answered, StoreError> {
        let coordinator = self.claim.coordinator.clone();
        coordinator.metrics().clocks.acquired(self.since);
        let stamped = match coordinator.outcome(&self.claim.name, result) {
            Ok(stamped) => stamped,
            Err(error) => {
                self.claim.failed(&error);
                return Err(error);
            }
        };
        self.claim.may_arrive_until = None;
        match stamped.executed.reply {
            Reply::Granted { token } => Ok(Answered::Granted(
                self.claim.granted(token, stamped.sent_at),
            )),
            Reply::Busy { holder } => {
                self.claim.on_drop = OnDrop::Forget;
                Ok(Answered::Busy(holder))
            }
            Reply::Queued {
                position,
                expires_in,
            } => Ok(Answered::Queued(self.queued(position, expires_in))),
            Reply::OtherLimit { limit } => {
                self.claim.on_drop = OnDrop::Forget;
                let name = self.claim.name.clone();
                Ok(Answered::OtherLimit { name, limit })
            }
            _ => Err(unexpected("acquire")),
        }
    }

    fn queued(self, position: u64, expires_in: Option<Duration>) -> InLine {
        let Self {
            claim,
            acquire,
            wait,
            started,
            holding,
            since: _,
            place,
        } = self;
        let until = match wait {
            Wait::For(wait) => Some(started + wait),
            Wait::No | Wait::Forever => None,
        };
        let (session, actor) = (acquire.session, acquire.actor);
        let mut in_line = InLine::new(claim, acquire, (position, expires_in), until, place);
        if let (Some(caller), Some(session)) = (holding, session) {
            in_line.holding(&caller, session, actor);
        }
        in_line
    }
}

impl InLine {
    /// An acquire that the store says is at this position, and when what is in its way runs out.
    pub(super) fn new(
        claim: Claim,
        acquire: Acquire,
        (position, expires_in): (u64, Option<Duration>),
        until: Option<Instant>,
        place: Option<WaiterPlace>,
    ) -> Self {
        let coordinator = claim.coordinator.clone();
        let name = claim.name.clone();
        // One that comes from another stream waited before.
        let place = place.unwrap_or_else(|| coordinator.limits().waiter_again(&name));
        Self {
            blocked: None,
            delivery: coordinator.registry().wait(claim.owner),
            claim,
            position,
            until,
            timer: coordinator.metrics().clocks.wait(),
            _tracked: coordinator.metrics().waiters.track(),
            _place: place,
            _waiting: Waiting::new(coordinator, name, Arc::new(acquire), expires_in),
        }
    }

    /// Tells the detector of deadlocks that the actor which waits holds something meanwhile. Does nothing for actor 0.
    pub fn holding(&mut self, caller: &Arc<str>, session: SessionId, actor: Actor) {
        if actor.is_nobody() {
            return;
        }
        let wait = BlockedWait {
            session,
            actor,
            ticket: self.claim.owner,
            name: self.claim.name.clone(),
        };
        let blocked = self.claim.coordinator.blocked();
        self.blocked = Some(blocked.add(caller, wait));
    }

    /// Its place when it joined: 1 is next.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Notes that its client knows its ticket, and so can resume its place where the session leaves that.
    pub fn resumable(&mut self, places: &Places) {
        self.claim.place = Some(places.clone());
    }

    /// Leaves its place, because this process ends while its client may know of it.
    pub fn leave_place(mut self) {
        self.claim.on_drop = OnDrop::Keep;
    }

    /// Its ticket.
    pub fn ticket(&self) -> &OwnerId {
        &self.claim.owner
    }

    /// Waits for its turn, or until `cancel` resolves to a value.
    pub async fn wait(self, cancel: oneshot::Receiver<()>) -> Acquired {
        // The waiter is gone from the coordinator's books only once its fate is known.
        let Self {
            mut claim,
            until,
            mut delivery,
            mut blocked,
            timer,
            _waiting,
            _tracked,
            _place,
            ..
        } = self;
        let timeout = async {
            match until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        let deadlocked = async {
            match &mut blocked {
                Some(blocked) => blocked.deadlocked().await,
                None => std::future::pending().await,
            }
        };
        let acquired = tokio::select! {
            biased;
            Ok(delivery) = &mut delivery => match delivery {
                Delivery::Granted { token, sent_at } => {
                    Acquired::Granted(claim.granted(token, sent_at))
                }
                Delivery::Moved => {
                    claim.on_drop = OnDrop::Forget;
                    Acquired::Moved
                }
                // The grant is given back as the claim drops.
                Delivery::Failed(error) => Acquired::Failed(error),
            },
            Ok(()) = cancel => {
                claim.give_up().await;
                Acquired::Cancelled
            }
            deadlock = deadlocked => {
                claim.give_up().await;
                Acquired::Deadlocked(deadlock)
            }
            () = timeout => Acquired::TimedOut(claim.give_up().await),
        };
        timer.ended(match &acquired {
            Acquired::Granted(_) => WaitEnd::Granted,
            Acquired::TimedOut(_) | Acquired::Busy(_) => WaitEnd::TimedOut,
            Acquired::Cancelled => WaitEnd::Cancelled,
            Acquired::Moved => WaitEnd::Moved,
            Acquired::Deadlocked(_) => WaitEnd::Deadlocked,
            Acquired::Failed(_) | Acquired::OtherLimit { .. } | Acquired::Refused(_) => {
                WaitEnd::Failed
            }
        });
        acquired
    }
}
