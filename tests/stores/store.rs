//! Stores as coordinators open and ask them, without coordinators.

use std::time::Duration;

use leasehold_core::{
    command::{Acquire, Caller, Command, End, Op},
    id::{Actor, CoordinatorId, FencingToken, OwnerId},
    mode::Mode,
    name::{ClientName, LockName, Value},
};
use leasehold_store::{Options, Status, Store, TlsFiles, measure::Meter};

/// Longer than any test takes.
pub(crate) const LONG: Duration = Duration::from_secs(600);

/// Returns how a coordinator opens a store.
pub(crate) fn options(url: String, coordinator: &str) -> Options {
    Options {
        url,
        tls: TlsFiles::default(),
        key_prefix: "lock:".into(),
        timeout: Duration::from_secs(5),
        connections: 1,
        acknowledgement: None,
        max_hold: LONG,
        meter: Meter::default(),
        coordinator: CoordinatorId::new(coordinator),
    }
}

/// Waits until a store serves.
pub(crate) async fn up(store: &Store, limit: Duration) {
    let mut status = store.status();
    let up = tokio::time::timeout(limit, status.wait_for(Status::is_up)).await;
    assert!(up.is_ok(), "{:?}", *store.status().borrow());
}

/// Returns a coordinator's command on a lock. Tokens are remembered for longer than any test takes.
pub(crate) fn command(coordinator: &str, name: &str, op: Op) -> Command {
    Command {
        name: LockName::parse(name).unwrap(),
        caller: Caller {
            coordinator: CoordinatorId::new(coordinator),
            floor: FencingToken::default(),
            token_memory: LONG * 2,
            not_after: None,
        },
        op,
    }
}

/// Returns an acquire of an exclusive lock, which waits in line.
pub(crate) fn acquire(owner: OwnerId) -> Acquire {
    Acquire {
        owner,
        session: None,
        actor: Actor::NOBODY,
        client_name: ClientName::default(),
        mode: Mode::Exclusive,
        value: Value::default(),
        ttl: LONG,
        lock_delay: Duration::ZERO,
        max_hold: None,
        wait: true,
        again: false,
    }
}

pub(crate) fn renew(owner: OwnerId) -> Op {
    Op::Renew {
        owner,
        token: None,
        ttl: LONG,
    }
}

pub(crate) fn release(owner: OwnerId) -> Op {
    Op::Release {
        owner,
        end: End::Clean,
    }
}
