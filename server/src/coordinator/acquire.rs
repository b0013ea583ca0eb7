//! One acquire, from asking to holding.

use std::{sync::Arc, time::Duration};

use leasehold_core::{
    command::{Acquire, End, Op, Reply},
    id::{FencingToken, OwnerId},
    name::LockName,
    time::Moment,
    view::HolderView,
};
use leasehold_store::{Answer, LockStore, Stamped, StoreError, clock};
use tokio::{sync::oneshot, time::Instant};

use super::{
    Coordinator, cleanup::Leftover, contention::Waiting, inbox::Inbox, registry::Delivery,
    unexpected,
};
use crate::telemetry::Tracked;

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
}

/// How an acquire ended.
#[derive(Debug)]
pub enum Acquired {
    /// The lock is held.
    Granted(Hold),
    /// It is not free, and the acquire did not want to wait.
    Busy(Option<HolderView>),
    /// It did not come free in time.
    TimedOut(Option<HolderView>),
    /// It was cancelled.
    Cancelled,
}

/// A lock that is held. Dropping it releases it, in the background, as an unclean end.
#[derive(Debug)]
pub struct Hold {
    claim: Claim,
    token: FencingToken,
    sent_at: Moment,
}

/// Everything that an owner id stands for at the store, from before its acquire is sent. Dropping it ends that in the
/// background, whatever it is by then, so that an acquire may be dropped at any point.
#[derive(Debug)]
struct Claim {
    coordinator: Coordinator,
    name: LockName,
    owner: OwnerId,
    ttl: Duration,
    lock_delay: Duration,
    /// Until when the acquire may still reach the store though its reply was given up.
    may_arrive_until: Option<Moment>,
    on_drop: OnDrop,
}

#[derive(Clone, Copy, Debug)]
enum OnDrop {
    /// It may be in the store, and nobody wants it.
    Release(End),
    /// It is not in the store, or somebody else sees to it.
    Forget,
    /// It stays in the store until it expires, and stays known here: an answer that tells of it must not have it handed
    /// on as nobody's.
    Keep,
}

/// An acquire that was sent. Dropping it ends in the background whatever it came to.
#[derive(Debug)]
pub struct Asked {
    claim: Claim,
    acquire: Acquire,
    wait: Wait,
    started: Instant,
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
}

/// An acquire that waits for its turn. Dropping it leaves the queue in the background.
#[derive(Debug)]
pub struct InLine {
    claim: Claim,
    position: u64,
    /// When it has waited for as long as it wanted to.
    until: Option<Instant>,
    delivery: oneshot::Receiver<Delivery>,
    _waiting: Waiting,
    _tracked: Tracked,
}

impl Coordinator {
    /// Sends an acquire.
    pub fn ask(&self, name: LockName, acquire: Acquire, wait: Wait, answer: Answer) -> Asked {
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
        };
        let asked = Asked {
            claim,
            acquire: acquire.clone(),
            wait,
            started: Instant::now(),
        };
        let command = self.command(name, Op::Acquire(acquire));
        self.store().send(command, answer);
        asked
    }

    /// Takes a lock, and waits for it as long as `wait` says.
    ///
    /// May be dropped at any point: what the store knows of it by then is released in the background.
    pub async fn acquire(
        &self,
        name: LockName,
        acquire: Acquire,
        wait: Wait,
    ) -> Result<Acquired, StoreError> {
        let (answer, answered) = oneshot::channel();
        let asked = self.ask(name, acquire, wait, Answer::once(answer));
        // An answer always comes.
        let result = answered.await.map_err(|_| unexpected("acquire"))?;
        match asked.answered(result)? {
            Answered::Granted(hold) => Ok(Acquired::Granted(hold)),
            Answered::Busy(holder) => Ok(Acquired::Busy(holder)),
            Answered::Queued(in_line) => {
                // Nothing but dropping this call cancels it.
                let (_cancel, cancelled) = oneshot::channel();
                Ok(in_line.wait(cancelled).await)
            }
        }
    }
}

impl Asked {
    /// Takes the store's answer in.
    pub fn answered(mut self, result: Result<Stamped, StoreError>) -> Result<Answered, StoreError> {
        let coordinator = self.claim.coordinator.clone();
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
            _ => Err(unexpected("acquire")),
        }
    }

    fn queued(self, position: u64, expires_in: Option<Duration>) -> InLine {
        let Self {
            claim,
            acquire,
            wait,
            started,
        } = self;
        let coordinator = claim.coordinator.clone();
        let name = claim.name.clone();
        InLine {
            delivery: coordinator.registry().wait(claim.owner),
            claim,
            position,
            until: match wait {
                Wait::For(wait) => Some(started + wait),
                Wait::No | Wait::Forever => None,
            },
            _tracked: coordinator.metrics().waiters.track(),
            _waiting: Waiting::new(coordinator, name, Arc::new(acquire), expires_in),
        }
    }
}

impl InLine {
    /// Its place when it joined: 1 is next.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Its ticket.
    pub fn ticket(&self) -> &OwnerId {
        &self.claim.owner
    }

    /// Waits for its turn, or until `cancel` resolves to a value.
    pub async fn wait(self, cancel: oneshot::Receiver<()>) -> Acquired {
        // The waiter is gone from the coordinator's books only once its fate is known.
        let Self {
            claim,
            until,
            mut delivery,
            _waiting,
            _tracked,
            ..
        } = self;
        let timeout = async {
            match until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            Ok(Delivery { token, sent_at }) = &mut delivery => {
                Acquired::Granted(claim.granted(token, sent_at))
            }
            Ok(()) = cancel => {
                claim.give_up().await;
                Acquired::Cancelled
            }
            () = timeout => Acquired::TimedOut(claim.give_up().await),
        }
    }
}

impl Claim {
    fn granted(mut self, token: FencingToken, sent_at: Moment) -> Hold {
        self.coordinator.metrics().grants.inc();
        // From here on the client may learn of it: if it is lost before it gives the lock back, the lock-delay applies.
        self.on_drop = OnDrop::Release(End::Unclean);
        Hold {
            claim: self,
            token,
            sent_at,
        }
    }

    /// Notes that its acquire failed. One that the store refused may have acted half-way, so it is released all the same.
    fn failed(&mut self, error: &StoreError) {
        if matches!(error, StoreError::Unavailable { .. }) {
            self.on_drop = OnDrop::Forget;
        }
    }

    /// Leaves the queue, or gives back a grant that came meanwhile; gives who holds the lock instead, if that is known.
    async fn give_up(mut self) -> Option<HolderView> {
        // It waits no more: nobody may put it back into the queue behind the release.
        self.coordinator.registry().in_flight(&self.owner);
        let op = Op::Release {
            owner: self.owner,
            end: End::Clean,
        };
        // On an error the claim's drop goes on trying in the background.
        self.coordinator.execute(&self.name, op).await.ok()?;
        self.on_drop = OnDrop::Forget;
        let (coordinator, name) = (self.coordinator.clone(), self.name.clone());
        // From here on a grant to it is nobody's, and is handed on.
        drop(self);
        let view = coordinator.view(&name, 0).await.ok()?;
        view.holder
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        match self.on_drop {
            OnDrop::Forget => self.coordinator.registry().forget(&self.owner),
            OnDrop::Keep => self.coordinator.registry().in_flight(&self.owner),
            OnDrop::Release(end) => {
                self.coordinator.registry().in_flight(&self.owner);
                let lasts = self.ttl + self.lock_delay + self.coordinator.shared.store_timeout * 2;
                self.coordinator.leave(Leftover {
                    name: self.name.clone(),
                    owner: self.owner,
                    end,
                    may_arrive_until: self.may_arrive_until,
                    gone_at: clock::now().after(lasts),
                    tracked: self.coordinator.metrics().inflight_cleanups.track(),
                });
            }
        }
    }
}

impl Hold {
    /// The lock's name.
    pub fn name(&self) -> &LockName {
        &self.claim.name
    }

    /// The owner id.
    pub fn owner(&self) -> &OwnerId {
        &self.claim.owner
    }

    /// The fencing token.
    pub fn token(&self) -> FencingToken {
        self.token
    }

    /// Until when it stands in the store at least.
    pub fn stands_until(&self) -> Moment {
        self.sent_at.after(self.claim.ttl)
    }

    /// The command that renews it.
    pub fn renewal(&self) -> Op {
        Op::Renew {
            owner: self.claim.owner,
            ttl: self.claim.ttl,
        }
    }

    /// Notes that a renewal sent at this moment was carried out.
    pub fn renewed(&mut self, sent_at: Moment) {
        self.sent_at = self.sent_at.max(sent_at);
    }

    /// Makes a session the one that hears if the hold is taken.
    pub fn tell(&self, session: Arc<Inbox>) {
        self.claim
            .coordinator
            .registry()
            .held(&self.claim.owner, session);
    }

    /// Gives the lock back; false if it was lost before. If the store does not answer, or this is dropped, the release
    /// goes on in the background.
    pub async fn release(self) -> Result<bool, StoreError> {
        let mut hold = self.given_back();
        let claim = &mut hold.claim;
        let released = claim.coordinator.release(&claim.name, claim.owner).await?;
        claim.on_drop = OnDrop::Forget;
        Ok(released)
    }

    /// Notes that its client gave it back: from here on, dropping it ends it cleanly.
    #[must_use]
    pub fn given_back(mut self) -> Self {
        self.claim.on_drop = OnDrop::Release(End::Clean);
        self
    }

    /// Ends it in the background as given back by its client.
    pub fn release_detached(self) {
        drop(self.given_back());
    }

    /// Leaves it in the store until it expires, because this process ends while its client may believe in it.
    pub fn leave_to_expire(mut self) {
        self.claim.on_drop = OnDrop::Keep;
    }

    /// Lets go of it without touching the store: it is gone there, or its caller renews it from now on.
    pub fn forget(mut self) {
        self.claim.on_drop = OnDrop::Forget;
    }
}
