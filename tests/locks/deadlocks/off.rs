//! Coordinators that do not look for deadlocks.

use std::time::{Duration, Instant};

use leasehold_proto::v1::{AcquireOutcome, session_response::Response};
use leasehold_tests::{Site, raw::for_at_most};

use crate::deadlocks::{
    client::{Client, exclusive},
    monitor::Monitor,
};

/// More than the time after which one would be found.
const WAIT: Duration = Duration::from_secs(3);
const MARGIN: Duration = Duration::from_secs(2);

#[tokio::test]
async fn without_detection_a_deadlock_stays_until_its_waits_time_out_and_nobody_is_told() {
    let site = Site::redis_with(2, &["--deadlock-detection=false"]).await;
    let monitor = Monitor::start(site.server()).await;
    let (mut one, mut other) = (Client::at(&site, 0).await, Client::at(&site, 1).await);
    let x = one.take(exclusive(1, "x")).await;
    let y = other.take(exclusive(1, "y")).await;
    let began = Instant::now();
    let waits_for_y = one.wait_for(for_at_most(WAIT, exclusive(1, "y"))).await;
    let waits_for_x = other.wait_for(for_at_most(WAIT, exclusive(1, "x"))).await;
    for (client, waits) in [(&mut one, waits_for_y), (&mut other, waits_for_x)] {
        match client.outcome(waits.request_id, WAIT + MARGIN).await {
            Response::NotGranted(end) => assert_eq!(end.outcome(), AcquireOutcome::TimedOut),
            end => panic!("not timed out, but: {end:?}"),
        }
        assert!(began.elapsed() >= WAIT, "ended after {:?}", began.elapsed());
    }
    one.release(&x).await;
    other.release(&y).await;
    one.close().await;
    other.close().await;
    let asked = monitor.finish().await;
    assert!(asked.calls > 0, "{asked:?}");
    assert_eq!(asked.of_blocked, 0, "{asked:?}");
    assert_eq!(site.sum("leasehold_deadlocks_total").await, 0.0);
    site.nothing_is_left().await;
}
