//! Foreign changes to the keys of a lock with many holders, which the rules know nothing of.

use std::time::Duration;

use leasehold_core::{
    command::{Caller, Command, End, Executed, Loss, Op, Reply},
    id::{CoordinatorId, FencingToken},
    mode::Mode,
    name::LockName,
    view::{HolderView, NameView},
};
use leasehold_store::{Store, StoreError};
use leasehold_tests::RedisServer;
use redis::aio::MultiplexedConnection;

use crate::differential::{
    connect,
    pair::{acquire, owner, release},
};

/// The lock's key.
const LOCK: &str = "lock:shared";

struct Shared {
    store: Store,
    redis: MultiplexedConnection,
    _server: RedisServer,
}

impl Shared {
    /// Returns a store on which a lock has these holders.
    async fn by(numbers: std::ops::Range<u16>) -> Self {
        let server = RedisServer::start();
        let mut shared = Self {
            store: connect(&server).await,
            redis: server.async_connection().await,
            _server: server,
        };
        for number in numbers {
            shared.granted(number).await;
        }
        shared
    }

    async fn granted(&mut self, number: u16) {
        let done = self.run(acquire(number, Mode::Shared)).await.unwrap();
        assert!(matches!(done.reply, Reply::Granted { .. }), "{done:?}");
    }

    async fn run(&mut self, op: Op) -> Result<Executed, StoreError> {
        let command = Command {
            name: LockName::parse("shared").unwrap(),
            caller: Caller {
                coordinator: CoordinatorId::new("here"),
                floor: FencingToken::new(0),
                token_memory: Duration::from_secs(60),
                not_after: None,
            },
            op,
        };
        Ok(self.store.execute(command).await?.executed)
    }

    async fn view(&mut self) -> NameView {
        match self.run(Op::View { waiters: 10 }).await.unwrap().reply {
            Reply::Seen(view) => *view,
            other => panic!("a view was answered {other:?}"),
        }
    }

    async fn redis<T: redis::FromRedisValue>(&mut self, words: &[&str]) -> T {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        command.query_async(&mut self.redis).await.unwrap()
    }

    /// Returns the only key of ours that has this in its name.
    async fn key(&mut self, kind: &str) -> String {
        let keys: Vec<String> = self.redis(&["KEYS", &format!("lh:*:{kind}:*")]).await;
        assert_eq!(keys.len(), 1, "{keys:?}");
        keys[0].clone()
    }
}

fn renew(number: u16) -> Op {
    Op::Renew {
        token: None,
        owner: owner(number),
        ttl: Duration::from_secs(10),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn leftovers_of_holders_whose_lock_was_deleted_do_not_count() {
    let mut shared = Shared::by(0..3).await;
    let () = shared.redis(&["DEL", LOCK]).await;
    let done = shared.run(renew(0)).await.unwrap();
    assert_eq!(done.reply, Reply::Lost(Loss::Deleted));
    assert_eq!(shared.view().await.holder_count, 0);
    // Two others get it, of whom nothing was known, and one of the former holders again.
    for number in [7, 8, 1] {
        shared.granted(number).await;
    }
    assert_eq!(shared.view().await.holder_count, 3);
    let done = shared.run(renew(2)).await.unwrap();
    assert_eq!(done.reply, Reply::Lost(Loss::Taken));
    for number in [7, 8, 1] {
        let done = shared.run(release(number)).await.unwrap();
        assert!(matches!(done.reply, Reply::Released { held: true, .. }));
    }
    let left: Vec<String> = shared.redis(&["KEYS", "*"]).await;
    assert!(left.iter().all(|key| key.contains(":token:")), "{left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_was_overwritten_is_in_the_way_until_it_is_gone() {
    let mut shared = Shared::by(0..2).await;
    let () = shared
        .redis(&["SET", LOCK, "a stranger", "PX", "100000"])
        .await;
    let done = shared.run(renew(0)).await.unwrap();
    assert_eq!(done.reply, Reply::Lost(Loss::Taken));
    let view = shared.view().await;
    assert!(matches!(
        view.holders[..],
        [HolderView::Foreign {
            expires_in: Some(_)
        }]
    ));
    assert_eq!(view.holder_count, 1);
    let done = shared.run(acquire(5, Mode::Shared)).await.unwrap();
    assert!(matches!(
        done.reply,
        Reply::Queued {
            position: 1,
            expires_in: Some(_)
        }
    ));
    let () = shared.redis(&["DEL", LOCK]).await;
    let done = shared.run(Op::Refresh { oldest: None }).await.unwrap();
    assert_eq!(done.handed.len(), 1);
    assert_eq!(shared.view().await.holder_count, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_whose_holders_are_unknown_is_in_the_way_until_it_is_gone() {
    let mut shared = Shared::by(0..2).await;
    let holds = shared.key("holds").await;
    let () = shared.redis(&["DEL", &holds]).await;
    let view = shared.view().await;
    assert!(matches!(view.holders[..], [HolderView::Foreign { .. }]));
    let done = shared.run(acquire(5, Mode::Shared)).await.unwrap();
    assert!(matches!(done.reply, Reply::Queued { .. }));
    let done = shared.run(Op::ForceRelease).await.unwrap();
    assert_eq!(done.handed.len(), 1);
    assert_eq!(shared.view().await.holder_count, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_another_type_fails_what_needs_it_alone() {
    for kind in ["holders", "holds"] {
        let mut shared = Shared::by(0..2).await;
        let key = shared.key(kind).await;
        let () = shared.redis(&["SET", &key, "of a stranger"]).await;
        let failed = shared.run(renew(0)).await;
        assert!(
            matches!(failed, Err(StoreError::WrongType { .. })),
            "{failed:?}"
        );
        // Once the lock is free, it is out of the way.
        let () = shared.redis(&["DEL", LOCK]).await;
        shared.granted(3).await;
        assert_eq!(shared.view().await.holder_count, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_gets_in_as_soon_as_the_last_holder_is_gone() {
    let mut shared = Shared::by(0..2).await;
    let lasts = |number, millis| Op::Renew {
        token: None,
        owner: owner(number),
        ttl: Duration::from_millis(millis),
    };
    shared.run(lasts(0, 100_000)).await.unwrap();
    shared.run(lasts(1, 20_000)).await.unwrap();
    let left: u64 = shared.redis(&["PTTL", LOCK]).await;
    assert!((90_000..=100_001).contains(&left), "{left}");
    // The other one ends first now.
    shared.run(release(0)).await.unwrap();
    let left: u64 = shared.redis(&["PTTL", LOCK]).await;
    assert!((10_000..=20_001).contains(&left), "{left}");
    for kind in ["holders", "holds"] {
        let key = shared.key(kind).await;
        let left: u64 = shared.redis(&["PTTL", &key]).await;
        assert!((10_000..=21_001).contains(&left), "{left}");
    }
    // A ghost is in a stranger's way as well.
    let Op::Acquire(mut asked) = acquire(2, Mode::Shared) else {
        panic!("it is an acquire")
    };
    asked.lock_delay = Duration::from_secs(40);
    shared.run(Op::Acquire(asked)).await.unwrap();
    let unclean = Op::Release {
        owner: owner(2),
        end: End::Unclean,
    };
    shared.run(unclean).await.unwrap();
    shared.run(release(1)).await.unwrap();
    let left: u64 = shared.redis(&["PTTL", LOCK]).await;
    assert!((30_000..=40_001).contains(&left), "{left}");
    assert_eq!(shared.view().await.holder_count, 0);
}
