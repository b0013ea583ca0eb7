//! A coordinator dies with more waiters than a script removes at once.

use std::time::Duration;

use leasehold_core::{
    command::{Acquire, Caller, Command, End, Op, PLACES_KEPT, Reply},
    id::{CoordinatorId, FencingToken, OwnerId, SessionId},
    lock::LockState,
    name::{ClientName, LockName, Value},
};
use leasehold_store::{LockStore, Store, StoreError};
use leasehold_tests::RedisServer;

use crate::{
    compare::{Comparison, compare},
    connect,
};

/// More than are removed with one operation, and with a few.
const DEAD: u16 = 2_000;
/// They live.
const LIVING: u16 = 20;

/// A lock in Redis, and by the rules.
pub(crate) struct Pair {
    store: Store,
    rules: LockState,
    name: LockName,
}

impl Pair {
    pub(crate) async fn new(redis: &RedisServer, name: &str) -> Self {
        Self {
            store: connect(redis).await,
            rules: LockState::default(),
            name: LockName::parse(name).unwrap(),
        }
    }

    /// Carries an operation out in both, and gives the answer on which they agree.
    pub(crate) async fn run(&mut self, coordinator: &str, op: Op) -> Reply {
        self.try_run(coordinator, op).await.unwrap()
    }

    /// The same with an operation that Redis may refuse; then it is as if it had not been asked for.
    pub(crate) async fn try_run(&mut self, coordinator: &str, op: Op) -> Result<Reply, StoreError> {
        let caller = Caller {
            coordinator: CoordinatorId::new(coordinator),
            floor: FencingToken::new(0),
            token_memory: Duration::from_secs(60),
            not_after: None,
        };
        let command = Command {
            name: self.name.clone(),
            caller: caller.clone(),
            op: op.clone(),
        };
        let got = self.store.execute(command).await?.executed;
        let expected = self.rules.apply(&caller, &op, got.at);
        match compare(&expected, &got) {
            // The lock's key outlasts the test; how long it has left is not what this is about.
            Comparison::Same | Comparison::Apart(..) => Ok(got.reply),
            Comparison::Different(what) => panic!("{op:?} from {coordinator}: {what}"),
        }
    }
}

fn owner(number: u16) -> OwnerId {
    let mut bytes = [0x2d; 16];
    bytes[..2].copy_from_slice(&number.to_be_bytes());
    OwnerId::from_bytes(bytes)
}

pub(crate) fn acquire(number: u16) -> Op {
    Op::Acquire(Acquire {
        owner: owner(number),
        session: Some(SessionId::from_bytes(*owner(number).as_bytes())),
        client_name: ClientName::default(),
        value: Value::default(),
        ttl: Duration::from_secs(600),
        lock_delay: Duration::ZERO,
        wait: true,
    })
}

pub(crate) fn release(number: u16) -> Op {
    Op::Release {
        owner: owner(number),
        end: End::Clean,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_crowd_is_skipped_then_forgotten_and_never_comes_back() {
    let redis = RedisServer::start();
    let mut pair = Pair::new(&redis, "crowded").await;
    pair.run("living", acquire(0)).await;
    for number in 1..=DEAD {
        pair.run("dead", acquire(number)).await;
    }
    let living = DEAD + 1..=DEAD + LIVING;
    for number in living.clone() {
        pair.run("living", acquire(number)).await;
    }
    pair.run("living", Op::View { waiters: 10 }).await;

    // Taken for dead, and skipped.
    tokio::time::sleep(Duration::from_millis(2_200)).await;
    pair.run("living", release(0)).await;
    pair.run("living", Op::View { waiters: 1_000 }).await;

    // It has lost its places. Not all of them can have been removed when it comes back and joins again, partly with the same
    // owner ids.
    for _ in 0..PLACES_KEPT.as_secs() {
        tokio::time::sleep(Duration::from_secs(1)).await;
        pair.run("living", Op::Refresh { oldest: None }).await;
    }
    let oldest = Some(owner(DEAD - 1));
    pair.run("dead", Op::Refresh { oldest }).await;
    let returned = [3, DEAD - 1, DEAD + LIVING + 1, DEAD];
    for number in returned {
        pair.run("dead", acquire(number)).await;
        pair.run("living", Op::View { waiters: 1_000 }).await;
    }
    pair.run("dead", release(5)).await;
    for number in living.chain(returned) {
        pair.run("dead", release(number)).await;
        pair.run("dead", Op::View { waiters: 1_000 }).await;
    }

    let left: Vec<String> = redis::cmd("KEYS")
        .arg("*")
        .query_async(&mut redis.async_connection().await)
        .await
        .unwrap();
    assert!(left.iter().all(|key| key.contains(":token:")), "{left:?}");
}
