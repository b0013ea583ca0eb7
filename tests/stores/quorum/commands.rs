//! Late extends on a quorum, and extends that find keys gone.

use leasehold_core::command::{Loss, Reply};
use leasehold_tests::Masters;

use crate::quorum::site::{
    acquire, all_hold, delete, key, release, released, renew, run, store, take,
};

#[tokio::test]
async fn an_extend_sets_a_missing_key_again_but_no_majority_of_them() {
    let masters = Masters::start(5).bootstrapped();
    let store = store(&masters, "here").await;
    take(&store, acquire(1)).await;
    all_hold(&masters, Some(1)).await;
    for place in [1, 3] {
        delete(masters.server(place));
    }
    assert_eq!(run(&store, renew(1)).await.reply, Reply::Renewed);
    all_hold(&masters, Some(1)).await;
    for place in [0, 1, 3] {
        delete(masters.server(place));
    }
    assert_eq!(
        run(&store, renew(1)).await.reply,
        Reply::Lost(Loss::Deleted)
    );
    assert_eq!(key(masters.server(0)), None);
}

#[tokio::test]
async fn a_lock_that_was_released_is_not_brought_back_by_a_late_extend() {
    let masters = Masters::start(5).bootstrapped();
    let store = store(&masters, "here").await;
    take(&store, acquire(1)).await;
    // Released where it can be, and still there on two of them when the extend comes.
    masters.pause(3);
    masters.pause(4);
    assert_eq!(run(&store, release(1)).await.reply, released(true));
    masters.resume(3);
    masters.resume(4);
    let late = run(&store, renew(1)).await.reply;
    assert!(matches!(late, Reply::Lost(_)), "{late:?}");
    for place in 0..3 {
        assert_eq!(key(masters.server(place)), None);
    }
}
