//! One name, waited for at two coordinators.

use std::time::{Duration, Instant};

use leasehold_proto::v1::{SessionAcquire, session_request::Request, session_response::Response};
use leasehold_tests::{
    Coordinator, Latencies, RawSession, RedisServer,
    alone::alone,
    raw::{PROMPT, wire},
    report,
};
use tokio::sync::mpsc;

const TTL: Duration = Duration::from_secs(30);
const NAME: &str = "contended";
const HOLD: Duration = Duration::from_millis(5);
const LONGEST_GAP: Duration = Duration::from_millis(400);
/// At each coordinator: enough for grants to go on for twice as long as a coordinator may go without a refresh.
const WAITERS: u64 = 250;

/// A hand-off to a coordinator that is gone: its claim time, the next refresh, and a margin.
const CLAIM: Duration = Duration::from_secs(3);
const REFRESH: Duration = Duration::from_secs(1);
const MARGIN: Duration = Duration::from_millis(500);

/// Client that was granted the lock, and the time of the grant.
struct Grant {
    at: Instant,
    coordinator: usize,
    request_id: u64,
}

/// Holds each grant for a moment and releases it, `count` times.
async fn hold_each(
    mut session: RawSession,
    coordinator: usize,
    count: u64,
    grants: mpsc::UnboundedSender<Grant>,
) {
    let mut left = count;
    while left > 0 {
        let message = session.next(PROMPT).await.expect("the stream is up");
        let message = message.expect("the stream is up");
        match message.response.unwrap() {
            Response::Granted(granted) => {
                let grant = Grant {
                    at: Instant::now(),
                    coordinator,
                    request_id: message.request_id,
                };
                grants.send(grant).ok().unwrap();
                left -= 1;
                tokio::time::sleep(HOLD).await;
                session.ask_release(&granted.locks[0]).await;
            }
            Response::Released(released) => assert!(released.released),
            Response::Heartbeat(_) => {}
            other => panic!("{other:?}"),
        }
    }
    // Those that are left are answered after the last grant.
    session.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wake_ups_keep_no_coordinator_from_its_refreshes_and_all_are_served_in_order() {
    let _alone = alone().await;
    let redis = RedisServer::start();
    let coordinators = [(); 2].map(|()| Coordinator::process().store(redis.url()).start());
    let mut holder = RawSession::open(&coordinators[0].endpoint(), TTL).await;
    let held = holder.acquire(NAME).await;
    let mut sessions = Vec::new();
    for coordinator in &coordinators {
        let mut session = RawSession::open(&coordinator.endpoint(), TTL).await;
        session.keep_alive(TTL / 6);
        sessions.push(session);
    }
    // One by one, by turns, so that nearly every hand-off goes from one to the other.
    let mut order = Vec::new();
    for number in 0..WAITERS {
        for (coordinator, session) in sessions.iter_mut().enumerate() {
            let id = session.ask(NAME, None).await;
            let place = 2 * number + 1 + coordinator as u64;
            assert_eq!(session.queued(id).await, place);
            order.push((coordinator, id));
        }
    }

    let (sender, mut receiver) = mpsc::unbounded_channel();
    let began = Instant::now();
    assert!(holder.release(&held.lock).await);
    let tasks: Vec<_> = sessions
        .into_iter()
        .enumerate()
        .map(|(number, session)| tokio::spawn(hold_each(session, number, WAITERS, sender.clone())))
        .collect();
    drop(sender);
    let (mut got, mut last) = (Vec::new(), began);
    let mut gaps =
        Latencies::new("from one grant to the next, held for 5 ms, over two coordinators");
    while let Some(grant) = receiver.recv().await {
        gaps.record(grant.at - last);
        last = grant.at;
        got.push((grant.coordinator, grant.request_id));
    }
    for task in tasks {
        task.await.unwrap();
    }
    gaps.print();
    assert_eq!(got.len(), order.len());
    let wrong = got.iter().zip(&order).position(|(got, due)| got != due);
    assert_eq!(wrong, None, "served out of turn from this place on");
    assert!(gaps.max() <= LONGEST_GAP, "{gaps}");
}

#[tokio::test]
async fn a_hand_off_to_a_dead_coordinator_costs_a_claim_time_and_no_lock_delay() {
    let _alone = alone().await;
    let redis = RedisServer::start();
    let mut dying = Coordinator::process().store(redis.url()).start();
    let living = Coordinator::process().store(redis.url()).start();
    let mut holder = RawSession::open(&living.endpoint(), TTL).await;
    let held = holder.acquire(NAME).await;
    let acquire = || {
        Request::Acquire(SessionAcquire {
            name: NAME.to_owned(),
            lock_delay: wire(TTL),
            ..SessionAcquire::default()
        })
    };
    let mut gone = RawSession::open(&dying.endpoint(), TTL).await;
    let id = gone.send(acquire()).await;
    assert_eq!(gone.queued(id).await, 1);
    let mut waiter = RawSession::open(&living.endpoint(), TTL).await;
    let id = waiter.send(acquire()).await;
    assert_eq!(waiter.queued(id).await, 2);

    dying.kill();
    let released = Instant::now();
    assert!(holder.release(&held.lock).await);
    let granted = waiter.granted(id, 2 * (CLAIM + REFRESH)).await;
    let took = released.elapsed();
    report(format!("past a dead coordinator's waiter after {took:?}"));
    assert!(took >= CLAIM, "the dead one had no chance: {took:?}");
    assert!(took <= CLAIM + REFRESH + MARGIN, "{took:?}");
    assert!(granted.lock.fencing_token > held.lock.fencing_token);
    assert!(waiter.release(&granted.lock).await);
}
