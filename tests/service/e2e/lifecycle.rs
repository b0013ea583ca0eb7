//! Fate of locks when sessions and coordinators begin and end in an orderly way.

use std::time::{Duration, Instant};

use leasehold_proto::v1::{
    GetLockRequest, ListLocksRequest, SessionAcquire, admin_service_client::AdminServiceClient,
    session_request::Request, session_response::Response,
};
use leasehold_tests::{
    Coordinator, RawSession, RedisServer,
    raw::{PROMPT, parse, wire},
};
use tonic::Code;

const TTL: Duration = Duration::from_secs(3);

#[tokio::test]
async fn waiters_are_served_in_order_and_who_left_is_skipped() {
    let redis = RedisServer::start();
    let coordinator = Coordinator::process().store(redis.url()).start();
    let mut holder = RawSession::open(&coordinator.endpoint(), TTL).await;
    let held = holder.acquire("queue").await;
    let mut waiters = Vec::new();
    for place in 1..=20 {
        let mut waiter = RawSession::open(&coordinator.endpoint(), TTL * 10).await;
        let id = waiter.ask("queue", None).await;
        assert_eq!(waiter.queued(id).await, place);
        waiters.push((waiter, id));
    }
    // Every third leaves: by a cancel, by dropping its stream, by closing its session.
    let mut staying = Vec::new();
    for (number, (mut waiter, id)) in waiters.into_iter().enumerate() {
        match number {
            3 | 12 => {
                waiter.cancel(id).await;
                let answer = waiter.answer(id, PROMPT).await;
                assert!(matches!(answer, Response::NotGranted(_)), "{answer:?}");
            }
            0 | 9 => drop(waiter),
            6 | 19 => waiter.close().await,
            _ => staying.push((number, waiter, id)),
        }
    }
    assert!(holder.release(&held.lock).await);
    let mut last = held.lock.fencing_token;
    for (number, waiter, id) in &mut staying {
        let granted = waiter.granted(*id, PROMPT).await;
        assert!(granted.lock.fencing_token > last, "{number}");
        last = granted.lock.fencing_token;
        assert!(waiter.release(&granted.lock).await, "{number}");
    }
}

#[tokio::test]
async fn a_lock_delay_keeps_a_name_closed_after_an_unclean_end_only() {
    let redis = RedisServer::start();
    let coordinator = Coordinator::process().store(redis.url()).start();
    let delay = Duration::from_secs(2);
    let acquire = || {
        Request::Acquire(SessionAcquire {
            name: "delayed".to_owned(),
            lock_delay: wire(delay),
            ..SessionAcquire::default()
        })
    };
    let mut waiter = RawSession::open(&coordinator.endpoint(), TTL * 10).await;

    // A release is clean.
    let mut holder = RawSession::open(&coordinator.endpoint(), TTL * 10).await;
    let id = holder.send(acquire()).await;
    let held = holder.granted(id, PROMPT).await;
    assert!(holder.release(&held.lock).await);
    let held = waiter.acquire("delayed").await;
    assert!(waiter.release(&held.lock).await);

    // The death of the holder is not.
    let id = holder.send(acquire()).await;
    holder.granted(id, PROMPT).await;
    let waiting = waiter.ask("delayed", None).await;
    waiter.queued(waiting).await;
    let died = Instant::now();
    drop(holder);
    waiter.granted(waiting, 2 * delay).await;
    let took = died.elapsed();
    assert!(took >= delay - Duration::from_millis(10), "{took:?}");
    assert!(took <= delay + Duration::from_millis(500), "{took:?}");
}

#[tokio::test]
async fn a_coordinator_that_is_asked_to_end_says_so_and_leaves_what_is_not_closed_to_expire() {
    let redis = RedisServer::start();
    let mut coordinator = Coordinator::process()
        .store(redis.url())
        .arguments(["--drain-timeout", "1s"])
        .start();
    let endpoint = coordinator.endpoint();
    let mut closing = RawSession::open(&endpoint, TTL * 10).await;
    closing.acquire("closing").await;
    let mut staying = RawSession::open(&endpoint, TTL * 10).await;
    let kept = staying.acquire("staying").await;

    coordinator.terminate();
    for session in [&mut closing, &mut staying] {
        match session.unasked(PROMPT).await {
            Response::Draining(draining) => {
                assert!(
                    parse(draining.deadline) <= Duration::from_secs(1),
                    "{draining:?}"
                );
            }
            other => panic!("{other:?}"),
        }
    }
    closing.close().await;
    let status = staying.end(PROMPT).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    assert!(coordinator.child().wait(PROMPT).await.success());

    // Its client may still believe in it, and will until its deadline.
    let mut connection = redis.async_connection().await;
    let left: i64 = redis::cmd("PTTL")
        .arg("lock:staying")
        .query_async(&mut connection)
        .await
        .unwrap();
    let believed = kept.good_until.saturating_duration_since(Instant::now());
    assert!(
        u128::try_from(left).unwrap() >= believed.as_millis(),
        "{left} {believed:?}"
    );
    let closed: bool = redis::cmd("EXISTS")
        .arg("lock:closing")
        .query_async(&mut connection)
        .await
        .unwrap();
    assert!(!closed);
}

#[tokio::test]
async fn tokens_rise_over_the_end_of_a_lock_and_of_its_coordinator() {
    let redis = RedisServer::start();
    let mut last = 0;
    for _ in 0..3 {
        let mut coordinator = Coordinator::process().store(redis.url()).start();
        let mut session = RawSession::open(&coordinator.endpoint(), Duration::from_secs(1)).await;
        let id = session.ask("tokens", None).await;
        // Held by the coordinator that was killed before, until its TTL has passed.
        let granted = session.granted(id, PROMPT).await;
        assert!(granted.lock.fencing_token > last);
        last = granted.lock.fencing_token;
        coordinator.kill();
    }
}

#[tokio::test]
async fn operators_see_every_lock_page_by_page_and_no_secret() {
    let redis = RedisServer::start();
    let coordinator = Coordinator::process().store(redis.url()).start();
    let mut session = RawSession::open(&coordinator.endpoint(), TTL * 10).await;
    let mut owner_ids = Vec::new();
    for number in 0..250 {
        let granted = session.acquire(&format!("page/{number}")).await;
        owner_ids.push(granted.lock.owner_id);
    }
    session.acquire("elsewhere").await;
    let mut waiter = RawSession::open(&coordinator.endpoint(), TTL * 10).await;
    let id = waiter.ask("page/7", None).await;
    waiter.queued(id).await;

    let mut admin = AdminServiceClient::new(coordinator.channel().await);
    let mut seen = std::collections::BTreeSet::new();
    let mut page_token = String::new();
    loop {
        let request = ListLocksRequest {
            prefix: "page/".to_owned(),
            page_size: 40,
            page_token,
        };
        let page = admin.list_locks(request).await.unwrap().into_inner();
        seen.extend(page.locks.into_iter().map(|lock| lock.name));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    assert_eq!(seen.len(), 250);

    let name = "page/7".to_owned();
    let response = admin.get_lock(GetLockRequest { name }).await.unwrap();
    let lock = response.into_inner().lock.unwrap();
    assert_eq!(
        (lock.holders.len(), lock.waiters.len(), lock.waiter_count),
        (1, 1, 1)
    );
    assert_eq!(lock.holders[0].client_name, "raw");
    assert!(!coordinator.log().is_empty());
    let shown = format!("{lock:?}{}", coordinator.log());
    for owner_id in owner_ids {
        let hex: String = owner_id.iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(!shown.contains(&hex), "an owner id is shown");
        assert!(
            !shown.contains(&format!("{owner_id:?}")),
            "an owner id is shown"
        );
    }
}
