//! Redis whose clock is stepped forwards: commands seem to reach it after they were given up.

use std::time::Duration;

use leasehold_tests::{Coordinator, RawSession, RedisServer, WallClock};

const TTL: Duration = Duration::from_secs(10);
const HOUR: i64 = 3_600_000_000;

#[tokio::test]
async fn a_command_that_a_step_of_the_clock_makes_look_late_is_sent_again() {
    let clock = WallClock::make();
    let redis = clock.of(RedisServer::options()).start();
    let coordinator = Coordinator::process().store(redis.url()).start();
    let mut session = RawSession::open(&coordinator.endpoint(), TTL).await;
    session.keep_alive(TTL / 20);
    let mut newest = 0;
    for hours in 0..3 {
        clock.set_ahead(hours * HOUR);
        let lock = session.acquire("stepped").await.lock;
        assert!(lock.fencing_token > newest);
        newest = lock.fencing_token;
        assert!(session.release(&lock).await);
    }
    session.close().await;
}
