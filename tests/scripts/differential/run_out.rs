//! An acquire that is sent again after its hold has run out.

use std::time::Duration;

use leasehold_core::{
    command::{Acquire, Loss, Op, Reply},
    name::Value,
    view::HolderView,
};

use crate::{
    common::{acquiring, release},
    differential::{
        pair::{Pair, modes},
        server::Server,
    },
};

const TTL: Duration = Duration::from_secs(1);

#[tokio::test]
async fn of_a_hold_of_which_only_the_lock_delay_is_left_it_is_told_that_it_is_lost() {
    let mut server = Server::start().await;
    for (name, mode) in modes() {
        let mut pair = Pair::new(&server, name).await;
        let asked = Op::Acquire(Acquire {
            ttl: TTL,
            lock_delay: Duration::from_secs(600),
            value: Value::parse(b"value").unwrap(),
            ..acquiring(1, mode)
        });
        let granted = pair.run("here", asked.clone()).await;
        assert!(matches!(granted, Reply::Granted { .. }), "{granted:?}");
        server.pass(TTL);
        let before = pair.view(1).await;
        for _ in 0..2 {
            let again = pair.run("here", asked.clone()).await;
            assert_eq!(again, Reply::Lost(Loss::Expired), "{name}");
        }
        // Nobody holds it any more, and it ends when it would have.
        let after = pair.view(1).await;
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
        pair.run("here", release(1)).await;
        assert_eq!(pair.view(1).await.holder_count, 0);
    }
}
