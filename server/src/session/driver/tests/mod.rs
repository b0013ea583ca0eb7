//! Sessions whose stream, connection and coordinator end as a test says.

mod scene;

use std::time::Duration;

use leasehold_core::command::Op;
use leasehold_proto::v1::{
    GrantedLock, LostReason, SessionAcquire, SessionRelease, session_request::Request as Ask,
    session_response::Response,
};
use tokio::time::timeout;

use self::scene::*;
use super::*;
use crate::{access::rules::Granted, coordinator::tests::site::Site};

/// Returns the reason for which the client hears that a lock is lost.
async fn lost(client: &mut Client) -> LostReason {
    match client.answer().await {
        Response::Lost(lost) => lost.locks[0].reason(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_a_peer_ended_is_released_at_once() {
    for is_killed in [false, true] {
        let mut scene = Scene::with_locks(Duration::ZERO).await;
        if is_killed {
            scene.client.is_killed().await;
        } else {
            scene.client.requests = None;
        }
        scene.ended().await;
        assert_eq!(scene.left().await, (0, 0), "{is_killed}");
    }
}

#[tokio::test]
async fn what_a_peer_said_before_it_died_is_heard() {
    let mut scene = Scene::open(Duration::ZERO).await;
    let lock_delay = Some(prost_types::Duration {
        seconds: 60,
        nanos: 0,
    });
    let delayed = SessionAcquire {
        name: "a".to_owned(),
        lock_delay,
        ..SessionAcquire::default()
    };
    scene.client.ask(2, Ask::Acquire(delayed));
    let GrantedLock { name, owner_id, .. } = scene.client.granted().await;
    scene.client.is_killed().await;
    let release = SessionRelease {
        name,
        owner_id,
        expired: false,
    };
    scene.client.ask(3, Ask::Release(release));
    scene.ended().await;
    // An unclean end would have closed it.
    other_takes(&scene.site.coordinator, "a").await;
}

#[tokio::test]
async fn silence_is_no_drop() {
    for error in [None, Some(Status::unknown("the transport broke"))] {
        let mut scene = Scene::with_locks(Duration::ZERO).await;
        // As the watchdog does.
        scene.client.connection.handle().kill();
        let requests = scene.client.requests.take().unwrap();
        if let Some(status) = error.clone() {
            requests.send(Err(status)).unwrap();
        }
        drop(requests);
        assert_eq!(scene.gave_up().await, 1, "{error:?}");
        scene.shutdown.stopping.cancel();
        scene.ended().await;
        assert_eq!(scene.left().await.0, 1, "{error:?}");
    }
}

#[tokio::test]
async fn a_client_is_told_that_its_coordinator_drains_and_is_served_meanwhile() {
    let mut scene = Scene::open(Duration::ZERO).await;
    scene.shutdown.draining.cancel();
    match scene.client.answer().await {
        Response::Draining(draining) => {
            let deadline = Duration::try_from(draining.deadline.unwrap());
            assert_eq!(deadline.unwrap(), crate::Config::default().drain_timeout);
        }
        other => panic!("{other:?}"),
    }
    scene.client.acquire(2, "a");
    scene.client.granted().await;
}

#[tokio::test]
async fn a_coordinator_that_stops_leaves_the_locks_of_its_sessions() {
    let mut scene = Scene::with_locks(Duration::ZERO).await;
    scene.shutdown.stopping.cancel();
    assert_eq!(scene.client.failed().await, "DRAINING");
    scene.ended().await;
    assert_eq!(scene.left().await, (1, 1));
}

#[tokio::test]
async fn a_session_that_waits_for_a_resume_stops_with_its_coordinator() {
    let mut scene = Scene::with_locks(TTL).await;
    scene.client.requests = None;
    // It has heard of that.
    let last = timeout(PATIENCE, scene.client.answers.next()).await;
    assert!(last.unwrap().is_none());
    scene.shutdown.stopping.cancel();
    scene.ended().await;
    assert_eq!(scene.left().await, (1, 1));
}

#[tokio::test]
async fn a_session_whose_task_is_dropped_leaves_nothing() {
    let mut scene = Scene::with_locks(Duration::ZERO).await;
    scene.served.abort();
    assert!((&mut scene.served).await.unwrap_err().is_cancelled());
    assert_eq!(scene.gave_up().await, 0);
}

/// A driver that nobody runs, whose session holds `a`; its client's messages come last.
async fn holding(site: &Site) -> (Box<Driver>, Client, Requests) {
    let coordinator = &site.coordinator;
    let (mut client, connection, outbox, requests) = client(coordinator).await;
    let opened = opened(coordinator, Duration::ZERO);
    let driver = open(
        coordinator.clone(),
        opened,
        connection,
        outbox,
        &Shutdown::idle(),
    );
    let mut driver = driver.unwrap();
    let acquire = SessionAcquire {
        name: "a".to_owned(),
        ..SessionAcquire::default()
    };
    driver.on_request(messages::Message {
        request_id: 2,
        request: Some(Ask::Acquire(acquire)),
        ..messages::Message::default()
    });
    run(&mut driver);
    client.answer().await;
    client.granted().await;
    (driver, client, requests)
}

/// Carries out what a driver's session says, and takes in what the store in memory answers at once.
fn run(driver: &mut Driver) {
    driver.carry_out();
    let mut events = Vec::new();
    driver.carrier.executor.inbox().take(&mut events);
    for event in events {
        driver.on_event(event);
    }
    driver.carry_out();
}

#[tokio::test]
async fn what_the_store_lost_while_it_was_away_is_found_at_once() {
    let site = Site::start();
    let (mut driver, mut client, mut requests) = holding(&site).await;
    driver.on_signal(Signal::Store(false), &mut requests);
    let lose = site.coordinator.command(name("a"), Op::ForceRelease);
    site.coordinator.store().execute(lose).await.unwrap();
    driver.on_signal(Signal::Store(true), &mut requests);
    run(&mut driver);
    assert_eq!(lost(&mut client).await, LostReason::Deleted);
}

#[tokio::test]
async fn a_hold_for_which_the_permission_is_gone_is_lost() {
    let site = Site::start();
    let (mut driver, mut client, mut requests) = holding(&site).await;
    let nothing = Granted::Only(Vec::new());
    driver.on_signal(Signal::Rights(Ok(nothing)), &mut requests);
    run(&mut driver);
    assert_eq!(lost(&mut client).await, LostReason::PermissionRevoked);
}
