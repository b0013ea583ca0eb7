//! Well-behaved clients that run into a deadlock again and again.

use std::time::{Duration, Instant};

use leasehold_proto::v1::session_response::Response;
use leasehold_tests::{
    CoordinatorProcess, RawSession,
    raw::{PROMPT, by, exclusive},
    report,
    stalls::Stalls,
};

/// Within what a deadlock is found, whatever others do.
const FOUND_WITHIN: Duration = Duration::from_secs(3);
/// The times that processes take turns meanwhile: clients, the coordinator, which looks twice, and Redis.
const TURNS: u32 = 10;
/// The passes of the detector that may end until then: one that was under way when the deadlock closed, one that finds the
/// last wait too young, and the two that see it.
const PASSES: f64 = 4.0;
/// The least time from the end of one pass to the end of the next.
const PASS: Duration = Duration::from_millis(300);
const TTL: Duration = Duration::from_secs(10);

/// Has two sessions wait for each other for so long, in turns. Others have the detector reach a bound in every pass.
///
/// # Panics
///
/// If one of their deadlocks is not found in time.
pub(crate) async fn measure(coordinator: &CoordinatorProcess, time: Duration) {
    let until = Instant::now() + time;
    let mut slowest = Duration::ZERO;
    let stalls = Stalls::watch();
    let mut rounds = 0;
    while rounds == 0 || Instant::now() < until {
        stalls.worst();
        let found = round(coordinator, rounds).await;
        // The machine itself may have stood still at each turn.
        let limit = FOUND_WITHIN + stalls.worst() * TURNS;
        assert!(
            found <= limit,
            "found after {found:?}, not within {limit:?}"
        );
        slowest = slowest.max(found);
        rounds += 1;
    }
    report(format!(
        "{rounds} deadlocks were found, each within {slowest:?}"
    ));
}

/// Returns how many passes have reached the bound of a session.
async fn passes(coordinator: &CoordinatorProcess) -> f64 {
    let metrics = coordinator.metrics().await;
    metrics.of("leasehold_deadlock_bounds_total", &["bound=\"session\""])
}

async fn round(coordinator: &CoordinatorProcess, number: u32) -> Duration {
    let mut sessions = Vec::new();
    for side in 0..2 {
        let mut session = RawSession::open(&coordinator.endpoint(), TTL).await;
        session.keep_alive(TTL / 4);
        let own = by(1, exclusive(&format!("deadlocked/{number}/{side}")));
        let request_id = session.ask_for(own).await;
        session.granted(request_id, PROMPT).await;
        sessions.push(session);
    }
    let mut closed = Instant::now();
    let mut waits = Vec::new();
    for (side, session) in sessions.iter_mut().enumerate() {
        let other = by(1, exclusive(&format!("deadlocked/{number}/{}", 1 - side)));
        closed = Instant::now();
        let request_id = session.ask_for(other).await;
        session.queued(request_id).await;
        waits.push(request_id);
    }
    let before = passes(coordinator).await;
    let (first, second) = sessions.split_at_mut(1);
    let answer = tokio::select! {
        answer = first[0].answer(waits[0], 10 * FOUND_WITHIN) => answer,
        answer = second[0].answer(waits[1], 10 * FOUND_WITHIN) => answer,
    };
    let found = closed.elapsed();
    let asked = Instant::now();
    let passes = passes(coordinator).await - before;
    // Further ones may have ended before the coordinator told.
    let since = 1.0 + (asked.elapsed().as_secs_f64() / PASS.as_secs_f64()).floor();
    assert!(passes >= 1.0, "passes reach the bound of a session");
    assert!(passes <= PASSES + since, "found by {passes} passes");
    assert!(
        matches!(&answer, Response::Error(failure) if failure.reason == "DEADLOCK"),
        "{answer:?}"
    );
    found
}
