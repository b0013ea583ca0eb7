//! A master that stops and comes back as a replica, and wake-ups and feeds after a fail-over.

use std::time::{Duration, Instant};

use leasehold_proto::v1::{
    LockEventKind, WatchLocksRequest, admin_service_client::AdminServiceClient,
    watch_locks_response::Response as Watched,
};
use leasehold_tests::{Coordinator, Sentinels, raw::PROMPT, report};
use tonic::Streaming;

use crate::sentinel::scene::{BEHIND, failed_over, has, is_left, session, take};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_master_is_left_and_is_a_replica_when_it_goes_on() {
    let redis = Sentinels::start();
    let coordinator = Coordinator::process().store(redis.url()).start();
    let mut session = session(&coordinator).await;
    let before = session.acquire("before").await.lock;
    redis.redis().wait_in_step(0, 2);

    let stopped = Instant::now();
    redis.pause_master();
    let new = failed_over(&redis, 0).await;
    let theirs = stopped.elapsed();
    let after = take(&mut session, "after").await.lock;
    let ours = stopped.elapsed();
    report(format!(
        "the sentinels failed over in {theirs:?} from a stopped master, service was back after {ours:?}"
    ));
    assert!(
        ours <= theirs + BEHIND,
        "{ours:?}, the sentinels {theirs:?}"
    );
    assert!(has(redis.redis().server(new), "after").await);

    redis.redis().server(0).cont();
    redis.redis().wait_in_step(new, 2);
    is_left(redis.redis().server(0)).await;
    for lock in [before, after] {
        assert!(session.release(&lock).await, "{}", lock.name);
    }
    assert!(session.unread_unasked().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wake_ups_and_feeds_come_from_the_new_master() {
    let mut redis = Sentinels::start();
    let coordinators = [(); 2].map(|()| Coordinator::process().store(redis.url()).start());
    let [mut holder, mut waiter] = [
        session(&coordinators[0]).await,
        session(&coordinators[1]).await,
    ];
    let mut watch = AdminServiceClient::new(coordinators[1].channel().await)
        .watch_locks(WatchLocksRequest::default())
        .await
        .unwrap()
        .into_inner();
    redis.kill_master();
    redis.wait_failed_over(0);
    for session in [&mut holder, &mut waiter] {
        let lock = take(session, "back").await.lock;
        session.release(&lock).await;
    }
    // The subscriptions may be a moment later than the commands.
    until_granted(&mut watch, &mut holder).await;

    let mut fastest = Duration::MAX;
    for round in 0..5 {
        let name = format!("handed-on/{round}");
        let lock = holder.acquire(&name).await.lock;
        let id = waiter.ask(&name, None).await;
        waiter.queued(id).await;
        let released = Instant::now();
        assert!(holder.release(&lock).await);
        waiter.granted(id, PROMPT).await;
        fastest = fastest.min(released.elapsed());
    }
    report(format!(
        "a hand-off to another coordinator took {fastest:?} on the new master"
    ));
    // Without wake-ups it would be found by the next refresh, up to a second later.
    assert!(fastest < Duration::from_millis(100), "{fastest:?}");
}

/// Takes names until the feed tells of one.
async fn until_granted(
    watch: &mut Streaming<leasehold_proto::v1::WatchLocksResponse>,
    session: &mut leasehold_tests::RawSession,
) {
    let deadline = Instant::now() + PROMPT;
    for number in 0.. {
        assert!(Instant::now() < deadline, "the feed tells nothing");
        let name = format!("told/{number}");
        session.acquire(&name).await;
        let told = async {
            loop {
                let message = watch.message().await.unwrap().expect("the feed goes on");
                if let Some(Watched::Event(event)) = message.response
                    && event.name == name
                    && event.kind() == LockEventKind::Granted
                {
                    return;
                }
            }
        };
        if tokio::time::timeout(Duration::from_millis(200), told)
            .await
            .is_ok()
        {
            return;
        }
    }
}
