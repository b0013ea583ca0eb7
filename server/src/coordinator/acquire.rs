//! Acquire of a unary call, from asking to holding.
//!
//! A session's acquires are rules of its machine ([`leasehold_core::session`]); a unary call has no lease, renews its hold by
//! itself, and may be dropped at any point.

use std::time::Duration;

use leasehold_core::{
    command::{Acquire, End, Op, Reply},
    id::{FencingToken, OwnerId},
    name::LockName,
    session::{PendingCleanup, RegistryEvent, Wait, WaitEnd},
    time::Moment,
    view::HolderView,
};
use leasehold_store::{Answer, LockStore, StoreError, clock};
use tokio::{sync::oneshot, time::Instant};

use super::{Coordinator, registry::Listener, unexpected};
use crate::status::Refusal;

/// A lock that a unary call holds.
#[derive(Debug)]
pub struct Granted {
    /// The hold.
    pub owner: OwnerId,
    /// Its token.
    pub token: FencingToken,
    /// Time of sending of the command that granted it.
    pub sent_at: Moment,
}

/// Outcome of an acquire.
#[derive(Debug)]
pub enum AcquireOutcome {
    /// The lock is held.
    Granted(Granted),
    /// It is not free, and the acquire did not want to wait.
    Busy(Option<HolderView>),
    /// It did not come free in time.
    TimedOut(Option<HolderView>),
    /// It was refused, or failed.
    Refused(Refusal),
}

/// Claim of an acquire's owner id on the store. Dropping it releases that in the background.
#[derive(Debug)]
struct Claim {
    coordinator: Coordinator,
    name: LockName,
    owner: OwnerId,
    ttl: Duration,
    lock_delay: Duration,
    /// Until when the acquire may still reach the store though its reply was given up.
    may_arrive_until: Option<Moment>,
    /// Whether it may be in the store, and nobody wants it.
    is_ours: bool,
}

impl Claim {
    fn forget(&mut self) {
        self.is_ours = false;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.is_ours {
            return self.coordinator.registry().forget(&self.owner);
        }
        let store_timeout = self.coordinator.store_timeout();
        let lasts = PendingCleanup::lasts(self.ttl, self.lock_delay, store_timeout);
        self.coordinator.clean_up(PendingCleanup {
            name: self.name.clone(),
            owner: self.owner,
            end: End::Clean,
            may_arrive_until: self.may_arrive_until,
            gone_at: clock::now().after(lasts),
        });
    }
}

impl Coordinator {
    /// Takes a lock, and waits for it as long as `wait` says; `queued` is called when it has to.
    ///
    /// # Cancel safety
    ///
    /// May be dropped at any point: what the store knows of it by then is released in the background.
    pub async fn acquire(
        &self,
        name: LockName,
        acquire: Acquire,
        wait: Wait,
        queued: impl FnOnce(),
    ) -> AcquireOutcome {
        let place = match wait {
            Wait::No => None,
            Wait::For(_) | Wait::Forever => match self.limits().waiter(&name) {
                Ok(place) => Some(place),
                Err(refusal) => return AcquireOutcome::Refused(refusal),
            },
        };
        let started = Instant::now();
        let (listener, mut events) = oneshot::channel();
        self.registry()
            .wait(acquire.owner, Listener::Call(listener));
        let mut claim = Claim {
            coordinator: self.clone(),
            name: name.clone(),
            owner: acquire.owner,
            ttl: acquire.ttl,
            lock_delay: acquire.lock_delay,
            // It may stay in a queue on its way for about as long as it may take.
            may_arrive_until: Some(clock::now().after(self.store_timeout() * 3)),
            is_ours: true,
        };
        let since = self.metrics().clocks.begin();
        let command = self.command(name.clone(), Op::Acquire(acquire.clone()));
        let (answer, answered) = oneshot::channel();
        self.store().send(command, Answer::once(answer));
        // An answer always comes.
        let result = answered
            .await
            .unwrap_or_else(|_| Err(unexpected("acquire")));
        self.metrics().clocks.acquired(since);
        let stamped = match self.outcome(&name, result) {
            Ok(stamped) => stamped,
            Err(error) => {
                // It may have acted half-way, also if the store refused it.
                claim.is_ours = !matches!(error, StoreError::Unavailable { .. });
                return AcquireOutcome::Refused(error.into());
            }
        };
        claim.may_arrive_until = None;
        let expires_in = match stamped.executed.reply {
            Reply::Granted { token } => return self.granted(claim, token, stamped.sent_at),
            Reply::Busy { holder } => {
                claim.forget();
                return AcquireOutcome::Busy(holder);
            }
            Reply::OtherLimit { limit } => {
                claim.forget();
                return AcquireOutcome::Refused(Refusal::other_limit(&name, limit));
            }
            Reply::Queued { expires_in, .. } => expires_in,
            _ => return AcquireOutcome::Refused(unexpected("acquire").into()),
        };
        queued();
        let waiter = self.track(name, acquire.into(), expires_in, place);
        let event = match wait {
            Wait::For(wait) => tokio::time::timeout_at(started + wait, &mut events).await,
            Wait::No | Wait::Forever => Ok((&mut events).await),
        };
        let (end, outcome) = match event {
            Ok(Ok(RegistryEvent::Granted { token, sent_at })) => {
                (WaitEnd::Granted, self.granted(claim, token, sent_at))
            }
            // The grant is given back as the claim drops.
            Ok(Ok(RegistryEvent::GrantFailed(error))) => {
                (WaitEnd::Failed, AcquireOutcome::Refused(error.into()))
            }
            // Nobody was told the ticket, nor is a unary call ever part of a deadlock.
            Ok(_) => {
                let outcome = AcquireOutcome::Refused(unexpected("acquire").into());
                (WaitEnd::Moved, outcome)
            }
            Err(_) => {
                let holder = self.give_up(claim).await;
                (WaitEnd::TimedOut, AcquireOutcome::TimedOut(holder))
            }
        };
        waiter.ended(end);
        outcome
    }

    fn granted(&self, mut claim: Claim, token: FencingToken, sent_at: Moment) -> AcquireOutcome {
        self.metrics().grants.inc();
        let owner = claim.owner;
        // From here on the caller renews it.
        claim.forget();
        AcquireOutcome::Granted(Granted {
            owner,
            token,
            sent_at,
        })
    }

    /// Leaves the queue, or gives back a grant that came meanwhile; gives who holds the lock, if that is known.
    async fn give_up(&self, mut claim: Claim) -> Option<HolderView> {
        // It waits no more: nobody may put it back into the queue behind the release.
        self.registry().settle(&claim.owner);
        // On an error the claim's drop goes on trying in the background.
        self.release(&claim.name, claim.owner).await.ok()?;
        claim.forget();
        let name = claim.name.clone();
        // From here on a grant to it is nobody's, and is handed on.
        drop(claim);
        let view = self.view(&name, 0).await.ok()?;
        view.holders.into_iter().next()
    }
}
