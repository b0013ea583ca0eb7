//! Acknowledgement by all replicas: a lock that a client was granted goes to no other, whichever server is the
//! master.

use std::time::{Duration, Instant};

use leasehold_proto::v1::{AcquireOutcome, session_response::Response};
use leasehold_tests::{
    Coordinator, CoordinatorProcess, RawSession, Sentinels,
    raw::{exclusive, for_at_most},
    report,
};
use tokio::sync::watch;

use crate::sentinel::scene::{LIMIT, failed_over, take};

/// Time within which replicas must acknowledge.
const REPLICA_TIMEOUT: Duration = Duration::from_millis(400);
/// TTL of the locks: longer than a partition and a fail-over usually take, so that the new master has replicas before the lock's
/// deadline.
const TTL: Duration = Duration::from_secs(12);
/// Tolerated delay of any event on a busy machine.
const LATE: Duration = Duration::from_secs(1);

const NOT_REPLICATED: &str = "NOT_REPLICATED";

/// Returns a coordinator that wants both replicas to acknowledge.
fn start(url: String) -> CoordinatorProcess {
    let timeout = format!("{}ms", REPLICA_TIMEOUT.as_millis());
    Coordinator::process()
        .store(url)
        .arguments(["--min-replicas", "2", "--replica-timeout", &timeout])
        .start()
}

async fn session(coordinator: &CoordinatorProcess) -> RawSession {
    let mut session = RawSession::open(&coordinator.endpoint(), TTL).await;
    session.keep_alive(TTL / 60);
    session
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_without_replicas_grants_nothing_and_the_next_one_knows_every_grant() {
    let mut redis = Sentinels::options().redis_password("secret").start();
    let coordinators = [(); 2].map(|()| start(redis.url()));
    let mut holder = session(&coordinators[0]).await;
    let mut other = session(&coordinators[1]).await;
    let mut master = 0;
    for round in 0..2 {
        let held = holder.take_one(exclusive("held")).await;
        redis.cut_replicas_off(master);
        for session in [&mut holder, &mut other] {
            let id = session.ask("alone", Some(Duration::ZERO)).await;
            let refusal = session.refusal(id, LIMIT).await;
            assert_eq!(refusal.reason, NOT_REPLICATED, "{refusal:?}");
        }
        assert_eq!(redis.kill_master(), master, "round {round}");
        let new = redis.wait_failed_over(master);
        redis.redis_mut().server_mut(master).restart();
        redis.redis().wait_acknowledging(new, 2);
        let alone = take(&mut other, "alone").await.lock;
        assert!(other.release(&alone).await);
        let busy = for_at_most(Duration::ZERO, exclusive("held"));
        let id = other.ask_for(busy).await;
        let busy = other.not_granted(id, LIMIT).await;
        assert_eq!(busy.outcome(), AcquireOutcome::Busy);
        holder.release_when_possible(&held, LIMIT).await;
        let next = other.take_one(exclusive("held")).await;
        assert!(next.fencing_token > held.fencing_token);
        assert!(other.release(&next).await);
        master = new;
    }
    for session in [&holder, &other] {
        let unasked = session.unread_unasked();
        let is_loss = |message: &&&_| matches!(response(message), Some(Response::Lost(_)));
        let lost: Vec<_> = unasked.iter().filter(is_loss).collect();
        assert!(lost.is_empty(), "{lost:?}");
    }
}

fn response(message: &leasehold_proto::v1::SessionResponse) -> Option<&Response> {
    message.response.as_ref()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_is_left_with_one_replica_grants_nothing() {
    let redis = Sentinels::options().redis_password("secret").start();
    let (proxies, url) = redis.behind_proxies().await;
    let old_side = start(url);
    let new_side = start(redis.url());
    let mut holder = session(&old_side).await;
    let held = holder.take_one(exclusive("held")).await;
    let holder = tokio::spawn(async move {
        let lost = holder.lost(TTL + LIMIT).await;
        let lost_at = Instant::now();
        assert_eq!(lost[0].name, "held", "{lost:?}");
        // The last that it was told.
        (lost_at, holder.good_until().unwrap())
    });
    let stop = watch::Sender::new(false);
    let asking = session(&old_side).await;

    // The old master keeps replica 1, and this coordinator, which no sentinel tells of anything else.
    for proxy in &proxies {
        proxy.black_hole();
    }
    redis.cut_sentinels_off(0);
    redis.cut_sentinels_off(1);
    redis.cut_replica_off(0, 2);
    let cut = Instant::now();
    redis.redis().wait_acknowledging(0, 1);
    let asking = tokio::spawn(keep_asking(asking, stop.subscribe()));
    let mut wants = session(&new_side).await;
    let wants = tokio::spawn(async move {
        let granted = take_when_free(&mut wants, "held").await;
        (Instant::now(), granted, wants)
    });
    assert_eq!(failed_over(&redis, 0).await, 2);
    tokio::time::sleep(LATE).await;

    // The partition ends for all but this coordinator, whose clients go on asking the old master.
    stop.send_replace(true);
    let refused = asking.await.unwrap();
    assert!(refused > 0);
    redis.rejoin(0);
    redis.rejoin(1);
    redis.redis().wait_acknowledging(2, 2);
    let (lost_at, promised) = holder.await.unwrap();
    let (granted_at, token, mut wants) = wants.await.unwrap();
    report(format!(
        "the old side was refused {refused} times; the holder's deadline was {:?} after the cut, it was told lost {:?} later, \
         another one granted {:?} later",
        promised - cut,
        lost_at.saturating_duration_since(promised),
        granted_at.saturating_duration_since(promised),
    ));
    assert!(promised <= cut + TTL, "a promise without replicas");
    assert!(lost_at >= promised, "{:?} too early", promised - lost_at);
    assert!(lost_at <= promised + LATE, "{:?}", lost_at - promised);
    assert!(
        granted_at >= promised,
        "{:?} too early",
        promised - granted_at
    );
    assert!(token > held.fencing_token);

    // The partition ends for this coordinator, too.
    for proxy in &proxies {
        proxy.forward();
    }
    let mut back = session(&old_side).await;
    take(&mut back, "back").await;
    wants.heartbeat().await;
    assert!(wants.unread_unasked().is_empty());
}

/// Asks for what is free until it is told to stop; how often it was refused, which it always is.
async fn keep_asking(mut session: RawSession, stop: watch::Receiver<bool>) -> usize {
    let mut refused = 0;
    while !*stop.borrow() {
        // In turns a new name, and one that it was refused before.
        let name = format!("asked/{}", refused / 2);
        let id = session.ask(&name, Some(LATE)).await;
        let refusal = session.refusal(id, LIMIT).await;
        assert_eq!(refusal.reason, NOT_REPLICATED, "{refusal:?}");
        refused += 1;
    }
    refused
}

/// Takes a lock when its holder has lost it; the token.
async fn take_when_free(session: &mut RawSession, name: &str) -> i64 {
    let deadline = Instant::now() + TTL + LIMIT;
    loop {
        let id = session.ask(name, Some(LATE)).await;
        match session.outcome(id, LIMIT).await {
            Response::Granted(granted) => return granted.locks[0].fencing_token,
            Response::NotGranted(_) => {}
            Response::Error(failure) => {
                assert!(Instant::now() < deadline, "{failure:?}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            other => panic!("{name} was answered by {other:?}"),
        }
    }
}
