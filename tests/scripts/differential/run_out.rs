//! An acquire that is sent again after its hold has run out.

use std::time::Duration;

use leasehold_core::{
    command::{Loss, Op, Reply},
    mode::Mode,
    name::Value,
    view::HolderView,
};
use leasehold_tests::{RedisServer, wait};

use crate::differential::pair::{Pair, acquire, modes, release};

/// Returns an acquire of a hold that runs out at once, and closes the lock for longer than any test takes.
fn short(number: u16, mode: Mode) -> Op {
    let Op::Acquire(mut asked) = acquire(number, mode) else {
        panic!("it is an acquire")
    };
    asked.ttl = Duration::from_millis(1);
    asked.lock_delay = Duration::from_secs(600);
    asked.value = Value::parse(b"value").unwrap();
    Op::Acquire(asked)
}

#[tokio::test]
async fn of_a_hold_of_which_only_the_lock_delay_is_left_it_is_told_that_it_is_lost() {
    let redis = RedisServer::start();
    for (name, mode) in modes() {
        let pair = tokio::sync::Mutex::new(Pair::new(&redis, name).await);
        let view = async || match pair.lock().await.run("here", Op::View { waiters: 1 }).await {
            Reply::Seen(view) => *view,
            other => panic!("{other:?}"),
        };
        let granted = pair.lock().await.run("here", short(1, mode)).await;
        assert!(matches!(granted, Reply::Granted { .. }), "{granted:?}");
        wait::until("it to have run out", Duration::from_secs(10), || async {
            let view = view().await;
            match &view.holders[..] {
                [HolderView::Ours(hold)] if hold.is_over() => Ok(()),
                _ => Err(view),
            }
        })
        .await;
        // By the rules, which count in microseconds, it may run out a millisecond later.
        tokio::time::sleep(Duration::from_millis(2)).await;
        let before = view().await;
        for _ in 0..2 {
            let again = pair.lock().await.run("here", short(1, mode)).await;
            assert_eq!(again, Reply::Lost(Loss::Expired), "{name}");
        }
        // Nobody holds it any more, and it ends when it would have.
        let after = view().await;
        let [HolderView::Ours(was), HolderView::Ours(is)] = [&before.holders[0], &after.holders[0]]
        else {
            panic!("{after:?}")
        };
        assert_eq!(
            (was.value.as_bytes(), is.value.as_bytes()),
            (&b"value"[..], &b""[..])
        );
        assert_eq!(
            (is.token, is.is_over(), after.waiter_count),
            (was.token, true, 0)
        );
        // A release ends it.
        pair.lock().await.run("here", release(1)).await;
        assert_eq!(view().await.holder_count, 0);
    }
}
