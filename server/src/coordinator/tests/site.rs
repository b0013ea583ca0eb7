//! Coordinator over a store in memory, with its background tasks, and what a test sends through it.

use std::{sync::Arc, time::Duration};

use leasehold_core::{
    command::{Acquire, Handed, Op},
    id::{Actor, CoordinatorId, FencingToken, OwnerId, SessionId},
    mode::Mode,
    name::{ClientName, LockName, TtlBounds, Value},
    session::{CallOutcome, CallRequest, RegistryEvent, Wait},
};
use leasehold_store::{Options, TlsFiles, WakeUp, measure::Meter};
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    Liveness,
    access::Access,
    audit::{Audit, Holder},
    config::Config,
    coordinator::{
        Coordinator, Parts,
        inbox::{Inbox, InboxEvent},
    },
    limits::Limits,
    services::{call, names},
    telemetry::Metrics,
};

/// A while in which everything is done that needs no timer of a tenth of a second.
pub(super) const A_MOMENT: Duration = Duration::from_millis(20);

/// A coordinator and its background tasks.
pub(crate) struct Site {
    pub(crate) coordinator: Coordinator,
    wake_ups: mpsc::Sender<WakeUp>,
    _stop: DropGuard,
}

impl Site {
    pub(crate) fn start() -> Self {
        let id = CoordinatorId::new("here");
        let options = Options {
            url: "memory:".to_owned(),
            tls: TlsFiles::default(),
            key_prefix: String::new(),
            timeout: Duration::from_secs(1),
            connections: 1,
            acknowledgement: None,
            coordinator: id.clone(),
            max_hold: Duration::from_secs(60),
            meter: Meter::default(),
        };
        let (store, _) = leasehold_store::open(options).unwrap();
        let (wake_ups, receiver) = mpsc::channel(8);
        let parts = Parts {
            id,
            store,
            bounds: TtlBounds::default(),
            max_wait: Duration::from_secs(60),
            store_timeout: Duration::from_secs(1),
            acknowledged: false,
            deadlock_detection: false,
            metrics: Metrics::default(),
            limits: Limits::new(Config::default().into()),
            audit: Audit::default(),
            access: Access::default(),
            liveness: Liveness::default(),
        };
        let stop = CancellationToken::new();
        Self {
            coordinator: Coordinator::start(parts, receiver, &stop),
            wake_ups,
            _stop: stop.drop_guard(),
        }
    }

    /// Takes the lock, which is free, as a unary call does.
    pub(super) async fn hold(&self) -> (OwnerId, FencingToken) {
        match self.acquire(Wait::No).await {
            CallOutcome::Granted { owner, token, .. } => (owner, token),
            other => panic!("not granted: {other:?}"),
        }
    }

    /// Takes the lock, as a unary call does.
    pub(super) async fn acquire(&self, wait: Wait) -> CallOutcome {
        let request = CallRequest {
            name: name(),
            mode: Mode::Exclusive,
            wait,
            client_name: ClientName::parse("client").unwrap(),
            value: Value::default(),
            ttl: Duration::from_secs(60),
            lock_delay: Duration::ZERO,
            max_hold: None,
            mark: None,
        };
        call::acquire(&self.coordinator, request, Holder::default(), || ()).await
    }

    /// Registers a waiter, as a session does, before its acquire is sent.
    pub(super) fn register(&self, number: u8) -> Arc<Inbox> {
        let inbox = Arc::<Inbox>::default();
        let registry = self.coordinator.registry();
        registry.wait(owner(number), Arc::clone(&inbox));
        inbox
    }

    /// Returns who holds the lock and how many wait for it.
    pub(super) async fn seen(&self) -> (u64, u64) {
        let view = names::view(&self.coordinator, &name(), 0).await.unwrap();
        (view.holder_count, view.waiter_count)
    }

    pub(super) fn operations(&self) -> u64 {
        self.coordinator.metrics().store_operations.get()
    }

    /// Has something told to the coordinator, and waits until it has taken that in.
    pub(super) async fn tell(&self, wake_up: WakeUp) {
        self.wake_ups.send(wake_up).await.unwrap();
        while self.wake_ups.capacity() < self.wake_ups.max_capacity() {
            tokio::task::yield_now().await;
        }
    }

    /// Tells the coordinator that another one has granted the lock to a waiter.
    pub(super) async fn tell_granted(&self, number: u8) {
        self.tell(WakeUp::Granted {
            name: name(),
            owner: owner(number),
            token: FencingToken::new(1),
            permits: None,
            of_session: true,
        })
        .await;
    }

    pub(super) fn floor(&self) -> FencingToken {
        self.coordinator
            .command(name(), Op::ForceRelease)
            .caller
            .floor
    }
}

pub(crate) fn name() -> LockName {
    LockName::parse("a").unwrap()
}

pub(crate) fn owner(number: u8) -> OwnerId {
    OwnerId::from_bytes([number; 16])
}

/// Returns an acquire of a session of another coordinator's.
pub(crate) fn acquire(number: u8) -> Acquire {
    Acquire {
        owner: owner(number),
        session: Some(SessionId::from_bytes([number; 16])),
        actor: Actor::NOBODY,
        client_name: ClientName::parse("client").unwrap(),
        mode: Mode::Exclusive,
        value: Value::default(),
        ttl: Duration::from_secs(60),
        lock_delay: Duration::ZERO,
        max_hold: None,
        wait: true,
        again: false,
    }
}

/// Returns the grant to a session's waiter at a coordinator.
pub(super) fn handed(number: u8, coordinator: &str) -> Handed {
    Handed {
        owner: owner(number),
        token: FencingToken::new(1),
        permits: None,
        coordinator: CoordinatorId::new(coordinator),
        of_session: true,
    }
}

/// Returns the next event of a session.
pub(crate) async fn heard(inbox: &Inbox) -> (OwnerId, RegistryEvent) {
    tokio::time::timeout(A_MOMENT, inbox.arrived())
        .await
        .unwrap();
    let mut events = Vec::new();
    inbox.take(&mut events);
    match <[InboxEvent; 1]>::try_from(events).unwrap() {
        [InboxEvent::Registry(owner, event)] => (owner, event),
        [other] => panic!("{other:?}"),
    }
}
