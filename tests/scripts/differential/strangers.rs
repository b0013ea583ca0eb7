//! Foreign changes to the keys of a lock with many holders, which the rules know nothing of.

use std::time::Duration;

use leasehold_core::{
    command::{Acquire, Executed, Loss, Op, Reply},
    mode::Mode,
    view::{HolderView, NameView},
};
use leasehold_store::{Store, StoreError};

use crate::{
    common::{acquire, acquiring, command, release, release_uncleanly, renew},
    differential::server::Server,
};

/// The lock's key.
const LOCK: &str = "lock:shared";
const TTL: Duration = Duration::from_secs(10);

struct Shared {
    store: Store,
    server: Server,
}

impl Shared {
    /// Returns a store on which a lock has these holders.
    async fn by(numbers: std::ops::Range<u16>) -> Self {
        let server = Server::start().await;
        let store = server.connect().await;
        let shared = Self { store, server };
        for number in numbers {
            shared.granted(number).await;
        }
        shared
    }

    async fn granted(&self, number: u16) {
        let done = self.run(acquire(number, Mode::Shared)).await;
        assert!(matches!(done.reply, Reply::Granted { .. }), "{done:?}");
    }

    async fn run(&self, op: Op) -> Executed {
        self.try_run(op).await.unwrap()
    }

    async fn try_run(&self, op: Op) -> Result<Executed, StoreError> {
        Ok(self
            .store
            .execute(command("shared", "here", op))
            .await?
            .executed)
    }

    async fn view(&self) -> NameView {
        match self.run(Op::view(10)).await.reply {
            Reply::Seen(view) => *view,
            other => panic!("a view was answered {other:?}"),
        }
    }

    async fn redis<T: redis::FromRedisValue>(&self, words: &[&str]) -> T {
        self.server.ask(words).await
    }

    /// Asserts for how many seconds a key is kept, or a bit longer.
    async fn lasts(&self, key: &str, seconds: u64) {
        let left: u64 = self.redis(&["PTTL", key]).await;
        let range = seconds * 1000..=(seconds + 1) * 1000 + 1;
        assert!(range.contains(&left), "{key}: {left}");
    }

    /// Returns the only key of ours that has this in its name.
    async fn key(&self, kind: &str) -> String {
        let keys: Vec<String> = self.redis(&["KEYS", &format!("lh:*:{kind}:*")]).await;
        assert_eq!(keys.len(), 1, "{keys:?}");
        keys[0].clone()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn leftovers_of_holders_whose_lock_was_deleted_do_not_count() {
    let shared = Shared::by(0..3).await;
    let () = shared.redis(&["DEL", LOCK]).await;
    let done = shared.run(renew(0, TTL)).await;
    assert_eq!(done.reply, Reply::Lost(Loss::Deleted));
    assert_eq!(shared.view().await.holder_count, 0);
    // Two others get it, of whom nothing was known, and one of the former holders again.
    for number in [7, 8, 1] {
        shared.granted(number).await;
    }
    assert_eq!(shared.view().await.holder_count, 3);
    let done = shared.run(renew(2, TTL)).await;
    assert_eq!(done.reply, Reply::Lost(Loss::Taken));
    for number in [7, 8, 1] {
        let done = shared.run(release(number)).await;
        assert!(matches!(done.reply, Reply::Released { held: true, .. }));
    }
    shared.server.nothing_but_tokens_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_was_overwritten_is_in_the_way_until_it_is_gone() {
    let shared = Shared::by(0..2).await;
    let () = shared
        .redis(&["SET", LOCK, "a stranger", "PX", "100000"])
        .await;
    let done = shared.run(renew(0, TTL)).await;
    assert_eq!(done.reply, Reply::Lost(Loss::Taken));
    let view = shared.view().await;
    assert!(matches!(
        view.holders[..],
        [HolderView::Foreign {
            expires_in: Some(_)
        }]
    ));
    assert_eq!(view.holder_count, 1);
    let done = shared.run(acquire(5, Mode::Shared)).await;
    assert!(matches!(
        done.reply,
        Reply::Queued {
            position: 1,
            expires_in: Some(_)
        }
    ));
    let () = shared.redis(&["DEL", LOCK]).await;
    let done = shared.run(Op::Refresh { oldest: None }).await;
    assert_eq!(done.handed.len(), 1);
    assert_eq!(shared.view().await.holder_count, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_whose_holders_are_unknown_is_in_the_way_until_it_is_gone() {
    let shared = Shared::by(0..2).await;
    let holds = shared.key("holds").await;
    let () = shared.redis(&["DEL", &holds]).await;
    let view = shared.view().await;
    assert!(matches!(view.holders[..], [HolderView::Foreign { .. }]));
    let done = shared.run(acquire(5, Mode::Shared)).await;
    assert!(matches!(done.reply, Reply::Queued { .. }));
    let done = shared.run(Op::ForceRelease).await;
    assert_eq!(done.handed.len(), 1);
    assert_eq!(shared.view().await.holder_count, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_another_type_fails_what_needs_it_alone() {
    for kind in ["holders", "holds"] {
        let shared = Shared::by(0..2).await;
        let key = shared.key(kind).await;
        let () = shared.redis(&["SET", &key, "of a stranger"]).await;
        let failed = shared.try_run(renew(0, TTL)).await;
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
    let shared = Shared::by(0..2).await;
    let seconds = Duration::from_secs;
    shared.run(renew(0, seconds(100))).await;
    shared.run(renew(1, seconds(20))).await;
    shared.lasts(LOCK, 100).await;
    // The other one ends first now.
    shared.run(release(0)).await;
    shared.lasts(LOCK, 20).await;
    for kind in ["holders", "holds"] {
        shared.lasts(&shared.key(kind).await, 20).await;
    }
    // A ghost is in a stranger's way as well.
    let asked = Acquire {
        lock_delay: seconds(40),
        ..acquiring(2, Mode::Shared)
    };
    shared.run(Op::Acquire(asked)).await;
    shared.run(release_uncleanly(2)).await;
    shared.run(release(1)).await;
    shared.lasts(LOCK, 40).await;
    assert_eq!(shared.view().await.holder_count, 0);
}
