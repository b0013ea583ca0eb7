//! Exclusion and rising tokens, over three coordinators and five masters of which two are always in trouble.

use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::FutureExt;
use leasehold_proto::v1::session_response::Response;
use leasehold_tests::{CoordinatorProcess, Masters, RawSession, report, soak};
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::{referee::Referee, trouble::Troubles};
use crate::quorum::{
    offered::start,
    site::{MAX_TTL, PROMPT},
};

/// Smallest number of grants, and shortest duration in seconds, in the full form and in the short one.
const FULL: (u64, u64) = (10_000, 30);
const SHORT: (u64, u64) = (2_000, 10);
/// For how long it goes on at most.
const AT_MOST: Duration = Duration::from_secs(180);
const NAMES: usize = 150;
const WORKERS: usize = 90;

#[derive(Debug, Default)]
struct Counts {
    busy: AtomicU64,
    failed: AtomicU64,
    lost: AtomicU64,
    long: AtomicU64,
    silent: AtomicU64,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_two_of_five_may_fail_in_any_way_at_any_time() {
    let (least, seconds) = soak::either(FULL, SHORT);
    let at_least = Duration::from_secs(seconds);
    let masters = Masters::start(5).bootstrapped();
    let seed = u64::from(std::process::id());
    let coordinators: Vec<CoordinatorProcess> = (0..3).map(|_| start(&masters)).collect();
    let referee = Arc::new(Referee::default());
    let counts = Arc::new(Counts::default());
    let over = Arc::new(AtomicBool::new(false));
    let workers: Vec<_> = (0..WORKERS)
        .map(|number| {
            let endpoint = coordinators[number % coordinators.len()].endpoint();
            let (referee, counts, over) =
                (Arc::clone(&referee), Arc::clone(&counts), Arc::clone(&over));
            let mut random = StdRng::seed_from_u64(seed + number as u64);
            tokio::spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    let mut session = None;
                    let worked = work(
                        &mut session,
                        &endpoint,
                        &referee,
                        &counts,
                        &over,
                        &mut random,
                    );
                    if let Err(panic) = AssertUnwindSafe(worked).catch_unwind().await {
                        // On a machine that keeps clients from running, sessions fall silent, and are ended.
                        if !was_silent(session, panic.downcast_ref()).await {
                            std::panic::resume_unwind(panic);
                        }
                        counts.silent.fetch_add(1, Ordering::Relaxed);
                    }
                }
            })
        })
        .collect();
    let (counted, began) = (Arc::clone(&referee), Instant::now());
    let storm = tokio::task::spawn_blocking(move || {
        let mut troubles = Troubles::new(masters, seed);
        while began.elapsed() < at_least || (counted.grants() < least && began.elapsed() < AT_MOST)
        {
            troubles.step();
            std::thread::sleep(Duration::from_millis(20));
        }
        troubles.finish();
        troubles
    });
    let troubles = storm.await.unwrap();
    over.store(true, Ordering::Relaxed);
    for worker in workers {
        worker.await.unwrap();
    }
    let grants = referee.grants();
    report(format!(
        "quorum storm (seed {seed}): {grants} grants in {:?}, troubles {:?}, {counts:?}",
        began.elapsed(),
        troubles.made
    ));
    assert!(grants >= least, "only {grants} grants");
}

/// Works with one session until one of its requests fails or enough has been done.
async fn work(
    session: &mut Option<RawSession>,
    endpoint: &str,
    referee: &Referee,
    counts: &Counts,
    over: &AtomicBool,
    random: &mut StdRng,
) {
    let session = session.insert(RawSession::open(endpoint, MAX_TTL).await);
    session.keep_alive(MAX_TTL / 5);
    for _ in 0..100 {
        if over.load(Ordering::Relaxed) {
            return;
        }
        let name = format!("name-{}", random.random_range(0..NAMES));
        let id = session.ask(&name, Some(Duration::from_secs(2))).await;
        let response = loop {
            match session.answer(id, PROMPT).await {
                Response::Queued(_) => {}
                other => break other,
            }
        };
        let granted = match response {
            Response::Granted(granted) => granted,
            Response::NotGranted(_) => {
                counts.busy.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            Response::Error(failure) => {
                assert_eq!(failure.code, tonic::Code::Unavailable as i32, "{failure:?}");
                counts.failed.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            other => panic!("no answer to an acquire: {other:?}"),
        };
        let lock = granted.locks[0].clone();
        let token = lock.fencing_token;
        let mut good_until = session.good_until_of(&granted);
        referee.granted(&name, token, good_until);
        // Most are held for a moment; some for longer than they last unless they are renewed.
        if random.random_bool(0.02) {
            counts.long.fetch_add(1, Ordering::Relaxed);
            let held_until = Instant::now() + MAX_TTL * 2;
            while Instant::now() < held_until {
                tokio::time::sleep(MAX_TTL / 8).await;
                let left = good_until.saturating_duration_since(Instant::now());
                let beat = tokio::time::timeout(left, session.heartbeat()).await;
                let is_lost = is_lost(session);
                match beat {
                    Ok(until) if !is_lost => good_until = until.max(good_until),
                    _ => {
                        referee.ended(&name, token);
                        counts.lost.fetch_add(1, Ordering::Relaxed);
                        return;
                    }
                }
                referee.extended(&name, token, good_until);
            }
        } else {
            let moment = Duration::from_millis(random.random_range(0..5));
            tokio::time::sleep(moment).await;
        }
        referee.ended(&name, token);
        let id = session.ask_release(&lock).await;
        // It may be that nobody can tell yet: it goes on in the background.
        let _ = session.answer(id, PROMPT).await;
    }
}

/// Returns whether a session was ended for its silence, by what became of it.
async fn was_silent(session: Option<RawSession>, panic: Option<&String>) -> bool {
    const SILENCE: &str = "SESSION_SILENT";
    let Some(says) = panic else { return false };
    if let Some(mut session) = session
        && says.contains("the stream is up")
    {
        // What could not be sent does not tell why: that comes last.
        loop {
            match session.next(PROMPT).await {
                Ok(Some(_)) => {}
                Ok(None) => return false,
                Err(status) => return format!("{status:?}").contains(SILENCE),
            }
        }
    }
    says.contains(SILENCE)
}

/// Returns whether the session was told that it lost something.
fn is_lost(session: &RawSession) -> bool {
    let is_loss = |response: &&leasehold_proto::v1::SessionResponse| {
        matches!(response.response, Some(Response::Lost(_)))
    };
    session.unread_unasked().iter().any(is_loss)
}
