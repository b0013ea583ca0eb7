//! Order of grants while all clients live: that in which Redis saw the acquires.

use std::time::Duration;

use leasehold_tests::{alone::alone, report};

use crate::queue::crowd::{Crowd, WAITERS};

/// A hand-off that waited for a refresh was not told of in time.
const REFRESH: Duration = Duration::from_secs(1);
/// More than a message takes on any machine, and less than half of them would take if refreshes had to find the grants.
const USUAL: Duration = Duration::from_millis(100);

async fn served_in_order(coordinators: usize) {
    let _alone = alone().await;
    let mut crowd = Crowd::gather(coordinators).await;
    // Nobody has left the queue yet, so the place that each was told is the one that it has.
    let places: Vec<u64> = (1..).take(WAITERS).collect();
    assert_eq!(crowd.told(), places);
    let mut turns = crowd.begin().await;
    turns.finish().await;

    assert!(turns.cut_off.is_empty(), "nobody died: {:?}", turns.cut_off);
    assert_eq!(turns.granted(), crowd.order, "served out of turn");
    let (same, cross) = turns.print_gaps(&format!("{coordinators} coordinators"));
    report(format!("{WAITERS} turns in {:?}", turns.took()));
    // The order was one to tell something by.
    assert!(same.count() >= 20, "{same}");
    assert!(cross.count() >= 20, "{cross}");
    for gaps in [same, cross] {
        assert!(gaps.quantile(0.5) <= USUAL, "wake-ups are lost: {gaps}");
        assert!(gaps.max() < REFRESH, "a wake-up was lost: {gaps}");
    }
    crowd.nothing_is_left(None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_hundred_waiters_of_two_coordinators_are_served_in_the_order_of_redis() {
    served_in_order(2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_hundred_waiters_of_three_coordinators_are_served_in_the_order_of_redis() {
    served_in_order(3).await;
}
