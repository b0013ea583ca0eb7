//! Claims and holds of owner ids at the store: a claim from before its acquire is sent, a hold once it is granted.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use leasehold_core::{
    command::{End, Op},
    id::{FencingToken, OwnerId},
    name::LockName,
    time::Moment,
    view::HolderView,
};
use leasehold_store::{StoreError, clock};

use super::{Coordinator, cleanup::Leftover, inbox::Inbox};

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
pub(super) struct Claim {
    pub(super) coordinator: Coordinator,
    pub(super) name: LockName,
    pub(super) owner: OwnerId,
    pub(super) ttl: Duration,
    pub(super) lock_delay: Duration,
    /// Until when the acquire may still reach the store though its reply was given up.
    pub(super) may_arrive_until: Option<Moment>,
    pub(super) on_drop: OnDrop,
    /// Of a waiter whose client knows its ticket.
    pub(super) place: Option<Places>,
}

/// Whether a session that ends leaves its places in queues for its client to resume, rather than giving them up.
#[derive(Clone, Debug, Default)]
pub struct Places(Arc<AtomicBool>);

impl Places {
    /// Makes every waiter that shares this leave its place when it is dropped from now on.
    pub fn leave(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn are_left(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum OnDrop {
    /// It may be in the store, and nobody wants it.
    Release(End),
    /// It is not in the store, or somebody else sees to it.
    Forget,
    /// It stays in the store until it expires, and stays known here: an answer that tells of it must not have it handed
    /// on as nobody's.
    Keep,
}

impl Claim {
    pub(super) fn granted(self, token: FencingToken, sent_at: Moment) -> Hold {
        self.coordinator.metrics().grants.inc();
        self.held(token, sent_at)
    }

    pub(super) fn held(mut self, token: FencingToken, sent_at: Moment) -> Hold {
        self.place = None;
        // From here on the client may learn of it: if it is lost before it gives the lock back, the lock-delay applies.
        self.on_drop = OnDrop::Release(End::Unclean);
        Hold {
            claim: self,
            token,
            sent_at,
        }
    }

    /// Notes that its acquire failed. One that the store refused may have acted half-way, so it is released all the same.
    pub(super) fn failed(&mut self, error: &StoreError) {
        if matches!(error, StoreError::Unavailable { .. }) {
            self.on_drop = OnDrop::Forget;
        }
    }

    /// Leaves the queue, or gives back a grant that came meanwhile; gives who holds the lock instead, if that is known.
    pub(super) async fn give_up(mut self) -> Option<HolderView> {
        self.place = None;
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
        view.holders.into_iter().next()
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let is_left = self.place.as_ref().is_some_and(Places::are_left);
        match self.on_drop {
            OnDrop::Release(_) if is_left => self.coordinator.registry().in_flight(&self.owner),
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

    /// When the command was sent that granted or last renewed it.
    pub fn sent_at(&self) -> Moment {
        self.sent_at
    }

    /// Until when it stands in the store at least.
    pub fn stands_until(&self) -> Moment {
        self.sent_at.after(self.claim.ttl)
    }

    /// How long it lasts from each renewal.
    pub fn ttl(&self) -> Duration {
        self.claim.ttl
    }

    /// The command that renews it.
    pub fn renewal(&self) -> Op {
        Op::Renew {
            owner: self.claim.owner,
            ttl: self.claim.ttl,
        }
    }

    /// The command that has it end, but for its lock-delay, after no more than this.
    pub fn shortening(&self, ttl: Duration) -> Op {
        Op::Renew {
            owner: self.claim.owner,
            ttl,
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

    /// Notes that its client may know of it from here on, after [`given_back`](Self::given_back): dropping it is an unclean
    /// end.
    #[must_use]
    pub fn told(mut self) -> Self {
        self.claim.on_drop = OnDrop::Release(End::Unclean);
        self
    }

    /// Notes that its client gave it back, or never learnt of it: from here on, dropping it ends it cleanly.
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
