//! Operations on locks, and stores that carry them out.

use std::time::Duration;

use leasehold_core::{
    command::{Acquire, Caller, Command, End, Op, Resume},
    id::{Actor, CoordinatorId, FencingToken, OwnerId, SessionId},
    mode::Mode,
    name::{ClientName, LockName, Value},
};
use leasehold_store::{
    Options, Store, TlsFiles, WakeUp, measure::Meter, redis::status::LinkStatus,
};
use tokio::{
    sync::{mpsc, watch},
    time::timeout,
};

/// Time that no step here exceeds, on a machine that is busy with other tests too.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Returns options of a coordinator `here` with one connection.
pub(crate) fn options(url: &str) -> Options {
    Options {
        url: url.to_owned(),
        tls: TlsFiles::default(),
        key_prefix: "lock:".to_owned(),
        timeout: PATIENCE,
        connections: 1,
        acknowledgement: None,
        coordinator: CoordinatorId::new("here"),
        max_hold: Duration::from_secs(7200),
        meter: Meter::default(),
    }
}

/// Opens a store, and waits until it can be reached.
pub(crate) async fn connect(options: Options) -> (Store, mpsc::Receiver<WakeUp>) {
    let (store, wake_ups) = leasehold_store::open(options).unwrap();
    until_up(&mut store.status()).await;
    (store, wake_ups)
}

/// Returns the number of the connection.
pub(crate) async fn until_up(status: &mut watch::Receiver<LinkStatus>) -> u64 {
    let up = timeout(PATIENCE, status.wait_for(LinkStatus::is_up)).await;
    match *up.expect("the link should come up").unwrap() {
        LinkStatus::Up { epoch } => epoch,
        ref down => panic!("{down:?}"),
    }
}

/// Returns a coordinator whose commands are never late.
pub(crate) fn caller(coordinator: &str) -> Caller {
    Caller {
        coordinator: CoordinatorId::new(coordinator),
        floor: FencingToken::new(0),
        token_memory: Duration::from_secs(60),
        not_after: None,
    }
}

pub(crate) fn command(name: &str, coordinator: &str, op: Op) -> Command {
    Command {
        name: LockName::parse(name).unwrap(),
        caller: caller(coordinator),
        op,
    }
}

pub(crate) fn owner(number: u16) -> OwnerId {
    let mut bytes = [0x2d; 16];
    bytes[..2].copy_from_slice(&number.to_be_bytes());
    OwnerId::from_bytes(bytes)
}

/// Waits for the lock, to have it for longer than any test takes.
pub(crate) fn acquire(number: u16, mode: Mode) -> Op {
    Op::Acquire(acquiring(number, mode))
}

/// Returns the terms of [`acquire`], to be changed.
pub(crate) fn acquiring(number: u16, mode: Mode) -> Acquire {
    Acquire {
        owner: owner(number),
        session: Some(SessionId::from_bytes(*owner(number).as_bytes())),
        actor: Actor::NOBODY,
        client_name: ClientName::default(),
        mode,
        value: Value::default(),
        ttl: Duration::from_secs(600),
        lock_delay: Duration::ZERO,
        max_hold: None,
        wait: true,
        again: false,
    }
}

/// Returns a resume of a hold or place under one of these ids, for longer than any test takes.
pub(crate) fn resume(from: &[u16], next: u16) -> Op {
    Op::Resume(resuming(from, next))
}

/// Returns the terms of [`resume`], to be changed.
pub(crate) fn resuming(from: &[u16], next: u16) -> Resume {
    Resume {
        from: from.iter().map(|number| owner(*number)).collect(),
        next: owner(next),
        session: Some(SessionId::from_bytes(*owner(next).as_bytes())),
        client_name: ClientName::parse("heir").unwrap(),
        ttl: Duration::from_secs(500),
        count: 1,
        max_hold: None,
    }
}

pub(crate) fn renew(number: u16, ttl: Duration) -> Op {
    Op::Renew {
        owner: owner(number),
        token: None,
        ttl,
    }
}

pub(crate) fn release(number: u16) -> Op {
    Op::Release {
        owner: owner(number),
        end: End::Clean,
    }
}

/// Releases it as what its holder may have used last.
pub(crate) fn release_uncleanly(number: u16) -> Op {
    Op::Release {
        owner: owner(number),
        end: End::Unclean,
    }
}
