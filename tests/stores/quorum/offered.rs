//! Features of coordinators on several independent masters, and the refusals of the others.

use std::time::Duration;

use leasehold_proto::v1::{
    ObserveRequest, SessionFailure, WatchLocksRequest, admin_service_client::AdminServiceClient,
    election_service_client::ElectionServiceClient, session_response::Response,
};
use leasehold_tests::{Coordinator, CoordinatorProcess, Masters, RawCandidate, RawSession, raw};
use tonic::Code;

use crate::quorum::site::{MAX_TTL, PROMPT};

/// Returns a coordinator process on them.
pub(crate) fn start(masters: &Masters) -> CoordinatorProcess {
    let options = Coordinator::process().store(format!("redis+quorum://{}", masters.hosts()));
    let options = options.arguments(["--store-timeout=200ms", "--min-ttl=500ms"]);
    let max = format!("{}ms", MAX_TTL.as_millis());
    options
        .arguments([format!("--max-ttl={max}"), format!("--default-ttl={max}")])
        .start()
}

/// Returns a session that sends heartbeats by itself.
pub(crate) async fn session(coordinator: &CoordinatorProcess) -> RawSession {
    let mut session = RawSession::open(&coordinator.endpoint(), MAX_TTL).await;
    session.keep_alive(MAX_TTL / 5);
    session
}

#[tokio::test]
async fn missing_features_are_refused_with_their_reason() {
    let masters = Masters::start(3).bootstrapped();
    let coordinator = start(&masters);
    let mut session = session(&coordinator).await;
    for acquire in [raw::shared("x"), raw::semaphore("x", 1, 2)] {
        let id = session.ask_for(acquire).await;
        let SessionFailure {
            code,
            reason,
            message,
            ..
        } = session.refusal(id, PROMPT).await;
        assert_eq!(
            (code, reason.as_str()),
            (Code::FailedPrecondition as i32, "NOT_OFFERED")
        );
        assert!(message.contains("held exclusively"), "{message}");
    }
    let lock = session.take_one(raw::exclusive("x")).await;
    let id = session.ask_downgrade(&lock).await;
    assert_eq!(session.refusal(id, PROMPT).await.reason, "NOT_OFFERED");
    let id = session.ask_reduce(&lock, 1).await;
    let refusal = session.refusal(id, PROMPT).await;
    assert_eq!(refusal.reason, "NOT_A_SEMAPHORE");
    let channel = coordinator.channel().await;
    let watch = AdminServiceClient::new(channel.clone())
        .watch_locks(WatchLocksRequest::default())
        .await;
    assert_eq!(watch.unwrap_err().code(), Code::FailedPrecondition);
    let election = "e".to_owned();
    let observe = ElectionServiceClient::new(channel)
        .observe(ObserveRequest { election })
        .await;
    assert_eq!(observe.unwrap_err().code(), Code::FailedPrecondition);
}

#[tokio::test]
async fn waiters_are_served_in_order_at_one_coordinator_and_woken_at_others() {
    let masters = Masters::start(5).bootstrapped();
    let (here, there) = (start(&masters), start(&masters));
    let mut holder = session(&here).await;
    let lock = holder.take_one(raw::exclusive("x")).await;
    let mut waiters = Vec::new();
    for place in 1..=3 {
        let mut waiter = session(&here).await;
        let id = waiter.ask("x", Some(PROMPT)).await;
        assert_eq!(waiter.queued(id).await, place);
        waiters.push((waiter, id));
    }
    let mut token = lock.fencing_token;
    assert!(holder.release(&lock).await);
    for (mut waiter, id) in waiters {
        let granted = waiter.granted(id, PROMPT).await.lock;
        assert!(granted.fencing_token > token);
        token = granted.fencing_token;
        assert!(waiter.release(&granted).await);
    }
    let lock = holder.take_one(raw::exclusive("x")).await;
    let mut waiter = session(&there).await;
    let id = waiter.ask("x", Some(PROMPT)).await;
    assert_eq!(waiter.queued(id).await, 1);
    assert!(holder.release(&lock).await);
    // It is told, rather than found out by the refresh that comes once a second.
    let granted = waiter.granted(id, Duration::from_millis(900)).await.lock;
    assert!(granted.fencing_token > lock.fencing_token);
    // Whoever dies leaves it to the next.
    let id = holder.ask("x", Some(PROMPT)).await;
    assert_eq!(holder.queued(id).await, 1);
    drop(waiter);
    holder.granted(id, PROMPT).await;
}

#[tokio::test]
async fn a_cancelled_waiter_leaves_nothing_behind() {
    let masters = Masters::start(3).bootstrapped();
    let coordinator = start(&masters);
    let mut holder = session(&coordinator).await;
    let lock = holder.take_one(raw::exclusive("x")).await;
    let mut waiter = session(&coordinator).await;
    let id = waiter.ask("x", Some(PROMPT)).await;
    assert_eq!(waiter.queued(id).await, 1);
    waiter.cancel(id).await;
    let ended = waiter.outcome(id, PROMPT).await;
    assert!(matches!(ended, Response::NotGranted(_)), "{ended:?}");
    let mut next = session(&coordinator).await;
    let id = next.ask("x", Some(PROMPT)).await;
    assert_eq!(next.queued(id).await, 1);
    assert!(holder.release(&lock).await);
    next.granted(id, PROMPT).await;
}

#[tokio::test]
async fn elections_are_held() {
    let masters = Masters::start(3).bootstrapped();
    let coordinator = start(&masters);
    let channel = coordinator.channel().await;
    let mut first = RawCandidate::campaign(channel.clone(), "e", b"one", MAX_TTL).await;
    let term = first.elected(PROMPT).await;
    let mut second = RawCandidate::campaign(channel, "e", b"two", MAX_TTL).await;
    assert!(first.resign().await);
    assert!(second.elected(PROMPT).await.token > term.token);
}

#[tokio::test]
async fn without_a_majority_clients_hear_unavailable_and_why() {
    let mut masters = Masters::start(5).bootstrapped();
    let coordinator = start(&masters);
    let mut session = session(&coordinator).await;
    for place in [0, 2, 4] {
        masters.kill(place);
    }
    let id = session.ask("x", None).await;
    let failure = session.refusal(id, PROMPT).await;
    assert_eq!(failure.code, Code::Unavailable as i32, "{failure:?}");
    assert_eq!(failure.reason, "STORE_UNAVAILABLE");
    assert!(failure.message.contains("and 3 are needed"), "{failure:?}");
}
