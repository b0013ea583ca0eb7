//! Promoted replica with a clock that is behind.

use std::time::Duration;

use leasehold_proto::v1::{SessionFailure, session_response::Response};
use leasehold_tests::{Coordinator, RawSession, Sentinels, WallClock, alone::alone, report, wait};

use crate::sentinel::scene::{LIMIT, failed_over, is_left, session, take};

/// By how much.
const BEHIND_SECONDS: i64 = 5;

/// Returns the server's own time, in microseconds.
async fn time(redis: &Sentinels, index: usize) -> i64 {
    let mut connection = redis.redis().server(index).async_connection().await;
    let time = redis::cmd("TIME").query_async(&mut connection).await;
    let (seconds, micros): (i64, i64) = time.unwrap();
    seconds * 1_000_000 + micros
}

/// Returns the token of a grant, which is given back at once.
async fn token(session: &mut RawSession, name: &str) -> i64 {
    let lock = take(session, name).await.lock;
    session.release(&lock).await;
    lock.fencing_token
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_rise_although_the_new_master_is_five_seconds_behind() {
    let _alone = alone().await;
    let clock = WallClock::new();
    clock.set_ahead(-BEHIND_SECONDS * 1_000_000);
    let redis = Sentinels::options()
        .redis_password("secret")
        .server(1, |options| clock.of(options))
        // It is never promoted.
        .server(2, |options| options.arguments(["--replica-priority", "0"]))
        .start();
    let behind = time(&redis, 0).await - time(&redis, 1).await;
    assert!(
        (4_000_000..6_000_000).contains(&behind),
        "it is {behind} µs behind"
    );

    let coordinator = Coordinator::process().store(redis.url()).start();
    let mut granting = session(&coordinator).await;
    let kept = token(&mut granting, "kept").await;
    redis.redis().wait_in_step(0, 2);
    // From here on nothing that the master does reaches a replica.
    redis.isolate(0);
    let mut lost = token(&mut granting, "lost").await;
    while redis.master() == 0 {
        if let Some(token) = lost_grant(&mut granting, "lost").await {
            lost = lost.max(token);
        }
    }
    assert_eq!(failed_over(&redis, 0).await, 1);
    is_left(redis.redis().server(0)).await;

    // The counter of a name that the replica had is above its clock.
    assert!(token(&mut granting, "kept").await > kept);
    // Who granted what was lost has a floor above it.
    let at = time(&redis, 1).await;
    let first = token(&mut granting, "lost").await;
    assert!(first > lost, "{first} after {lost}");
    report(format!(
        "the first grant after the lost one was {:.1} s too early for the new master's clock, and its token rose",
        (lost - at).max(0) as f64 / 1e6
    ));

    // Another coordinator knows nothing of it: there the clock has to be past the lost grants.
    let other = Coordinator::process().store(redis.url()).start();
    let mut other = session(&other).await;
    wait::until(
        "the new master's clock to be past the lost grants",
        LIMIT,
        || async {
            let at = time(&redis, 1).await;
            if at > lost { Ok(()) } else { Err(lost - at) }
        },
    )
    .await;
    assert!(token(&mut other, "lost").await > lost);
}

/// Returns a grant by the server that counts as the master; `None` while there is none.
async fn lost_grant(session: &mut RawSession, name: &str) -> Option<i64> {
    let granted: Result<_, SessionFailure> = crate::sentinel::scene::attempt(session, name).await;
    let lock = granted.ok()?.lock;
    let id = session.ask_release(&lock).await;
    let _: Response = session.answer(id, LIMIT).await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    Some(lock.fencing_token)
}
