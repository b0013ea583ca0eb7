//! Handle on what the sessions and unary calls of a coordinator share.

use std::{
    num::NonZeroU32,
    sync::{
        Arc, Weak,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use leasehold_core::{
    command::{Caller, Command, End, Handed, Op, Reply},
    id::{CoordinatorId, FencingToken, OwnerId},
    name::{LockName, TtlBounds},
    session::{PendingCleanup, RegistryEvent},
};
use leasehold_store::{Observer, Stamped, Store, StoreError};
use tokio::sync::mpsc;

use super::{
    blocked::Blocked,
    contended::{Contention, Messages},
    ends::Ends,
    registry::Registry,
};
use crate::{
    Liveness,
    access::{Access, rules::Granted},
    admission::Admission,
    audit::Audit,
    convert::FieldBounds,
    limits::Limits,
    telemetry::{Metrics, Tracked},
};

/// A release that nobody waits for, counted in the metrics until the task of clean-up counts it.
pub(super) type Tracking = (PendingCleanup, Tracked);

/// A cheap handle on what all sessions of this process share.
#[derive(Clone, Debug)]
pub struct Coordinator {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    parts: Parts,
    registry: Registry,
    contention: Contention,
    blocked: Blocked,
    cleanups: mpsc::UnboundedSender<Tracking>,
    admission: Admission,
    ends: Ends,
    /// One more than the largest token of any name that the store has confirmed.
    floor: AtomicI64,
}

/// Parts of a coordinator.
#[derive(Debug)]
pub struct Parts {
    /// Its id, unique to this run of the process.
    pub id: CoordinatorId,
    /// The store of the locks.
    pub store: Store,
    /// TTLs that it accepts.
    pub bounds: TtlBounds,
    /// Longest wait that may be asked for.
    pub max_wait: Duration,
    /// Time-out of a command to the store.
    pub store_timeout: Duration,
    /// Whether replicas have to acknowledge grants and renewals.
    pub acknowledged: bool,
    /// Whether deadlocks are looked for.
    pub deadlock_detection: bool,
    /// Its metrics.
    pub metrics: Metrics,
    /// The limits of callers.
    pub limits: Limits,
    /// The audit log.
    pub audit: Audit,
    /// The rules in force.
    pub access: Access,
    /// Keeps its background tasks.
    pub liveness: Liveness,
}

impl Coordinator {
    /// Returns the handle on these parts, and what its tasks are sent.
    pub(super) fn new(parts: Parts) -> (Self, Messages, mpsc::UnboundedReceiver<Tracking>) {
        let (cleanups, incoming_cleanups) = mpsc::unbounded_channel();
        let (contention, messages) = Contention::new(parts.metrics.contention_queue.clone());
        let coordinator = Self {
            shared: Arc::new(Shared {
                parts,
                registry: Registry::default(),
                contention,
                blocked: Blocked::default(),
                cleanups,
                admission: Admission::default(),
                ends: Ends::default(),
                floor: AtomicI64::new(0),
            }),
        };
        let shared = Arc::downgrade(&coordinator.shared);
        let also = Weak::clone(&shared);
        coordinator.store().observe(Observer::new(
            move |name, stamped| {
                if let Some(shared) = shared.upgrade() {
                    Self { shared }.note(name, stamped);
                }
            },
            move |name, handed, error| {
                if let Some(shared) = also.upgrade() {
                    Self { shared }.refuse(name, handed, error);
                }
            },
        ));
        (coordinator, messages, incoming_cleanups)
    }

    /// Its id.
    pub fn id(&self) -> &CoordinatorId {
        &self.shared.parts.id
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.shared.parts.store
    }

    /// Returns the TTLs that it accepts.
    pub fn bounds(&self) -> &TtlBounds {
        &self.shared.parts.bounds
    }

    /// Longest wait that may be asked for.
    pub fn max_wait(&self) -> Duration {
        self.shared.parts.max_wait
    }

    /// Returns the bounds of the fields of a session's messages.
    pub fn field_bounds(&self) -> FieldBounds<'_> {
        FieldBounds {
            store: self.store(),
            ttl: self.bounds(),
            max_wait: self.max_wait(),
            limits: self.limits(),
        }
    }

    /// Returns the time-out of a command to the store.
    pub fn store_timeout(&self) -> Duration {
        self.shared.parts.store_timeout
    }

    /// Returns whether replicas have to acknowledge grants and renewals.
    pub fn is_acknowledged_by_replicas(&self) -> bool {
        self.shared.parts.acknowledged
    }

    /// Returns its metrics.
    pub fn metrics(&self) -> &Metrics {
        &self.shared.parts.metrics
    }

    /// Returns the audit log.
    pub fn audit(&self) -> &Audit {
        &self.shared.parts.audit
    }

    /// Returns what the caller with this key may do, by the rules in force here.
    pub fn granted_to(&self, key: &str) -> Granted {
        self.shared.parts.access.granted_to(key)
    }

    /// Returns the limits of callers.
    pub fn limits(&self) -> &Limits {
        &self.shared.parts.limits
    }

    /// Returns the admission of acquires to the store.
    pub fn admission(&self) -> &Admission {
        &self.shared.admission
    }

    /// Returns the sessions that operators can end here.
    pub fn ends(&self) -> &Ends {
        &self.shared.ends
    }

    /// The owner ids that it knows.
    pub fn registry(&self) -> &Registry {
        &self.shared.registry
    }

    pub(super) fn contention(&self) -> &Contention {
        &self.shared.contention
    }

    /// The actors that wait here while they hold something.
    pub(super) fn blocked(&self) -> &Blocked {
        &self.shared.blocked
    }

    /// A command from this coordinator, counted as about to be sent.
    pub fn command(&self, name: LockName, op: Op) -> Command {
        let caller = Caller {
            coordinator: self.shared.parts.id.clone(),
            floor: FencingToken::new(self.shared.floor.load(Ordering::Relaxed)),
            token_memory: self.shared.parts.bounds.token_memory(),
            not_after: None,
        };
        self.shared.parts.metrics.store_operations.inc();
        Command { name, caller, op }
    }

    /// Carries one operation out. What came with its answer is seen to even if this is dropped meanwhile: the store tells
    /// its observer, see `note`.
    pub async fn execute(&self, name: &LockName, op: Op) -> Result<Stamped, StoreError> {
        let command = self.command(name.clone(), op);
        let result = self.shared.parts.store.execute(command).await;
        self.outcome(name, result)
    }

    /// Sees to an operation that failed.
    pub fn outcome(
        &self,
        name: &LockName,
        result: Result<Stamped, StoreError>,
    ) -> Result<Stamped, StoreError> {
        if let Err(error) = &result {
            self.shared.parts.metrics.store_errors.inc();
            if error.is_indeterminate() {
                // It may have handed the lock on: whoever waits here finds out at once.
                self.shared.contention.recheck(name, Duration::ZERO);
            }
        }
        result
    }

    /// Sees to what came with a reply: learns its tokens, and gives each grant to the waiter of ours that it is for.
    pub(super) fn note(&self, name: &LockName, stamped: &Stamped) {
        let (at, audit) = (stamped.executed.at, self.audit());
        audit.learn(at);
        match &stamped.executed.reply {
            Reply::Granted { token, .. }
            | Reply::Resumed { token, .. }
            | Reply::Forced { token, .. } => self.learn(*token),
            _ => {}
        }
        for handed in &stamped.executed.handed {
            self.learn(handed.token);
            self.shared.parts.metrics.handoffs.inc();
            if handed.coordinator != self.shared.parts.id {
                continue;
            }
            let permits = handed.permits.map(NonZeroU32::get);
            audit.granted(&handed.owner, (handed.token, permits), Some(at));
            let granted = RegistryEvent::Granted {
                token: handed.token,
                permits,
                sent_at: stamped.sent_at,
            };
            self.deliver(name, handed, granted);
        }
        if stamped.executed.more {
            self.shared.contention.look(name);
        }
    }

    fn deliver(&self, name: &LockName, handed: &Handed, event: RegistryEvent) {
        if !self.shared.registry.deliver(&handed.owner, event)
            && handed.of_session
            && !self.shared.registry.knows(&handed.owner)
        {
            self.discard(name, handed.owner);
        }
    }

    /// Sees to a grant to a waiter that replicas have not acknowledged. Of one that waits elsewhere, its coordinator will
    /// find out when it confirms it.
    pub(super) fn refuse(&self, name: &LockName, handed: &Handed, error: &StoreError) {
        self.learn(handed.token);
        if handed.coordinator == self.shared.parts.id {
            self.deliver(name, handed, RegistryEvent::GrantFailed(error.clone()));
        }
    }

    /// Raises the floor above a token that the store has confirmed. A token that a client names never comes here.
    pub(super) fn learn(&self, token: FencingToken) {
        self.shared
            .floor
            .fetch_max(token.get().saturating_add(1), Ordering::Relaxed);
    }

    /// Hands a grant of ours on that nobody here knows of.
    pub(super) fn discard(&self, name: &LockName, owner: OwnerId) {
        self.clean_up(PendingCleanup {
            name: name.clone(),
            owner,
            end: End::Clean,
            may_arrive_until: None,
            gone_at: leasehold_store::clock::now().after(self.shared.parts.bounds.max),
            asks: false,
        });
    }

    /// Releases something in the background, and keeps its owner id registered until that is done.
    pub fn clean_up(&self, pending: PendingCleanup) {
        self.shared.registry.settle(&pending.owner);
        let tracked = self.shared.parts.metrics.inflight_cleanups.track();
        // The receiver lives as long as this handle's background task; when the process is stopping and it is gone,
        // expiry does what it would have done.
        let _ = self.shared.cleanups.send((pending, tracked));
    }
}
