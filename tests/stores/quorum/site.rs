//! Masters, and stores and coordinators on them.

use std::time::Duration;

use leasehold_core::{
    command::{Acquire, Executed, Op, Reply},
    id::{Actor, FencingToken, OwnerId, SessionId},
    name::{ClientName, Value},
};
use leasehold_store::{Options, Stamped, Status, Store, StoreError, open};
use leasehold_tests::{Masters, RedisProxy, RedisServer, wait};
use redis::Commands;

use crate::store::{self, command};

/// Time to wait for each master: longer than a busy machine keeps any process from running.
pub(crate) const PATIENCE: Duration = Duration::from_millis(500);
/// With this a master never takes too long.
pub(crate) const UNHURRIED: Duration = Duration::from_secs(30);
/// The longest TTL. A master that comes back has no vote for four times that.
pub(crate) const MAX_TTL: Duration = Duration::from_secs(1);
/// Longer than any test takes.
pub(crate) const LONG: Duration = Duration::from_secs(60);
/// Longest time for any event on a busy machine.
pub(crate) const PROMPT: Duration = Duration::from_secs(20);

/// Returns how to open a store on them.
pub(crate) fn options(masters: &Masters, coordinator: &str) -> Options {
    Options {
        timeout: PATIENCE,
        max_hold: MAX_TTL * 2,
        ..store::options(format!("redis+quorum://{}", masters.hosts()), coordinator)
    }
}

/// Returns a store that every master knows: each carries out its commands.
pub(crate) async fn store(masters: &Masters, coordinator: &str) -> Store {
    store_with(masters, coordinator, PATIENCE).await
}

/// Does the same with this time-out for each answer.
pub(crate) async fn store_with(masters: &Masters, coordinator: &str, timeout: Duration) -> Store {
    let (store, _) = open(Options {
        timeout,
        ..options(masters, coordinator)
    })
    .unwrap();
    up(&store).await;
    all_met(&store, masters, coordinator).await;
    store
}

/// Does the same through a proxy for each master, with this time-out for each answer.
pub(crate) async fn proxied(masters: &Masters, timeout: Duration) -> (Store, Vec<RedisProxy>) {
    let mut proxies = Vec::new();
    for server in masters.servers() {
        proxies.push(RedisProxy::start(server.address()).await);
    }
    let hosts: Vec<String> = proxies
        .iter()
        .map(|proxy| proxy.address().to_string())
        .collect();
    let (store, _) = open(Options {
        url: format!("redis+quorum://{}", hosts.join(",")),
        timeout,
        ..options(masters, "here")
    })
    .unwrap();
    up(&store).await;
    all_met(&store, masters, "here").await;
    (store, proxies)
}

/// Waits until every master carries out what a store asks, which a majority does already.
pub(crate) async fn all_met(store: &Store, masters: &Masters, coordinator: &str) {
    let met = format!("met by {coordinator}");
    let ask = |op| store.execute(command(coordinator, &met, op));
    wait::until("every master to be met", PROMPT, || async {
        let asked = ask(Op::Acquire(acquire(250))).await;
        let mut without = Vec::new();
        for (place, server) in masters.servers().iter().enumerate() {
            let key: Option<Vec<u8>> = server.connection().get(format!("lock:{met}")).unwrap();
            without.extend(key.is_none().then_some(place));
        }
        let released = ask(release(250)).await;
        match (asked, released, without.is_empty()) {
            (Ok(_), Ok(_), true) => Ok(()),
            (asked, released, _) => Err(format!("{without:?}: {asked:?}, {released:?}")),
        }
    })
    .await;
}

/// Waits until a majority has a vote.
pub(crate) async fn up(store: &Store) {
    store::up(store, PROMPT).await;
}

/// Waits until no majority has a vote, and gives why.
pub(crate) async fn down(store: &Store) -> String {
    let mut status = store.status();
    let down = status.wait_for(|status| !status.is_up());
    let down = tokio::time::timeout(PROMPT, down).await.unwrap().unwrap();
    match &*down {
        Status::Down { reason, .. } => reason.to_string(),
        Status::Up { .. } => String::new(),
    }
}

/// Waits until the store is down for a reason that says this.
pub(crate) async fn down_for(store: &Store, says: &str) -> String {
    wait::until("the store to say why it is down", PROMPT, || async {
        match &*store.status().borrow() {
            Status::Down { reason, .. } if reason.contains(says) => Ok(reason.to_string()),
            other => Err(format!("{other:?}")),
        }
    })
    .await
}

pub(crate) fn owner(number: u8) -> OwnerId {
    OwnerId::from_bytes([number; 16])
}

pub(crate) fn acquire(number: u8) -> Acquire {
    Acquire {
        session: Some(SessionId::from_bytes([number; 16])),
        actor: Actor::new(1),
        client_name: ClientName::parse("client").unwrap(),
        value: Value::parse(b"value").unwrap(),
        ttl: MAX_TTL,
        wait: false,
        ..store::acquire(owner(number))
    }
}

/// Returns the same with a TTL that is longer than any test takes.
pub(crate) fn long(number: u8) -> Acquire {
    Acquire {
        ttl: LONG,
        ..acquire(number)
    }
}

/// Has a store carry one operation out on the lock `x`.
pub(crate) async fn try_run(store: &Store, op: Op) -> Result<Stamped, StoreError> {
    try_run_by(store, "here", op).await
}

/// Does the same for another coordinator.
pub(crate) async fn try_run_by(
    store: &Store,
    coordinator: &str,
    op: Op,
) -> Result<Stamped, StoreError> {
    store.execute(command(coordinator, "x", op)).await
}

pub(crate) async fn run_by(store: &Store, coordinator: &str, op: Op) -> Executed {
    try_run_by(store, coordinator, op).await.unwrap().executed
}

pub(crate) async fn run(store: &Store, op: Op) -> Executed {
    try_run(store, op).await.unwrap().executed
}

/// Its token.
pub(crate) async fn take(store: &Store, acquire: Acquire) -> FencingToken {
    match run(store, Op::Acquire(acquire)).await.reply {
        Reply::Granted { token, .. } => token,
        other => panic!("not granted: {other:?}"),
    }
}

pub(crate) fn renew(number: u8) -> Op {
    renew_for(MAX_TTL, number)
}

pub(crate) fn renew_for(ttl: Duration, number: u8) -> Op {
    Op::Renew {
        token: None,
        owner: owner(number),
        ttl,
    }
}

pub(crate) fn release(number: u8) -> Op {
    store::release(owner(number))
}

pub(crate) fn released(held: bool) -> Reply {
    Reply::Released {
        held,
        waited: false,
        closed_for: None,
    }
}

/// Returns the contents of the key of the lock `x` on a master.
pub(crate) fn key(server: &RedisServer) -> Option<Vec<u8>> {
    server.connection().get("lock:x").unwrap()
}

pub(crate) fn delete(server: &RedisServer) {
    let deleted: u8 = server.connection().del("lock:x").unwrap();
    assert_eq!(deleted, 1);
}

/// Waits until the key of the lock `x` holds this on a master.
pub(crate) async fn holds(server: &RedisServer, what: Option<OwnerId>) {
    let what = what.map(|owner| owner.as_bytes().to_vec());
    wait::until("the key to be as expected", PROMPT, || async {
        let found = key(server);
        if found == what { Ok(()) } else { Err(found) }
    })
    .await;
}

/// Waits until it holds this on every master.
pub(crate) async fn all_hold(masters: &Masters, what: Option<u8>) {
    for server in masters.servers() {
        holds(server, what.map(owner)).await;
    }
}
