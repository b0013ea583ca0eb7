//! An acquire that is sent again after its hold was renewed.

use std::time::Duration;

use leasehold_core::{
    command::{Op, Reply},
    mode::{Mode, Permits},
    view::HolderView,
};
use leasehold_tests::RedisServer;

use crate::pair::{Pair, acquire, owner};

/// For longer than the acquire asked for.
const RENEWED_FOR: Duration = Duration::from_secs(3600);
/// The test takes no longer.
const LEFT: Duration = Duration::from_secs(3000);

#[tokio::test]
async fn it_leaves_a_longer_end_as_it_is() {
    let redis = RedisServer::start();
    let permits = Permits::new(2, 2).unwrap();
    for (name, mode) in [
        ("exclusive", Mode::Exclusive),
        ("shared", Mode::Shared),
        ("permits", Mode::Semaphore(permits)),
    ] {
        let mut pair = Pair::new(&redis, name).await;
        let granted = pair.run("here", acquire(1, mode)).await;
        let renew = Op::Renew {
            owner: owner(1),
            ttl: RENEWED_FOR,
        };
        assert_eq!(pair.run("here", renew).await, Reply::Renewed);
        assert_eq!(pair.run("here", acquire(1, mode)).await, granted);
        let view = pair.run("here", Op::View { waiters: 0 }).await;
        let Reply::Seen(view) = view else {
            panic!("{view:?}")
        };
        let [HolderView::Ours(hold)] = &view.holders[..] else {
            panic!("{view:?}")
        };
        assert!(hold.expires_in > LEFT, "{name}: {hold:?}");
    }
}
