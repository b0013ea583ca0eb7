//! Double grant that a partition can cause without replica acknowledgement, and that fencing catches.

use std::time::Duration;

use leasehold_proto::v1::{LostReason, session_response::Response};
use leasehold_tests::{Coordinator, FencedResource, RedisServer, Sentinels};

use crate::sentinel::scene::{LIMIT, failed_over, has, session, take};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_08_a_lock_that_two_masters_grant_is_caught_by_its_token() {
    let redis = Sentinels::options().redis_password("secret").start();
    let resource = RedisServer::start();
    let mut resource_connection = resource.async_connection().await;
    let stock = FencedResource::new("stock");

    // One coordinator is on the old master's side of the partition: no sentinel tells it of the new one.
    let (proxies, url) = redis.behind_proxies().await;
    let minority = Coordinator::process().store(url).start();
    let majority = Coordinator::process().store(redis.url()).start();
    let mut old_side = session(&minority).await;
    let mut new_side = session(&majority).await;
    let before = old_side.acquire("stock").await.lock;
    assert!(old_side.release(&before).await);
    redis.redis().wait_in_step(0, 2);
    for proxy in &proxies {
        proxy.black_hole();
    }
    redis.isolate(0);
    let new = failed_over(&redis, 0).await;

    let one = old_side.acquire("stock").await.lock;
    let other = loop {
        // Until this coordinator has moved on, it is on the old master's side, too.
        let id = new_side.ask("stock", Some(Duration::ZERO)).await;
        match new_side.answer(id, LIMIT).await {
            Response::Granted(granted) => break granted.locks.into_iter().next().unwrap(),
            _ => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    };
    // Two hold it, each on its own master, and both are told that all is well.
    assert!(has(redis.redis().server(0), "stock").await);
    assert!(has(redis.redis().server(new), "stock").await);
    for session in [&mut old_side, &mut new_side] {
        session.heartbeat().await;
        assert!(session.unread_unasked().is_empty());
    }
    assert!(before.fencing_token < one.fencing_token);
    assert!(one.fencing_token < other.fencing_token);
    let mut write = async |token, value| {
        let written = stock.write(&mut resource_connection, token, value).await;
        written.unwrap()
    };
    assert!(write(one.fencing_token, "one").await);
    assert!(write(other.fencing_token, "other").await);
    assert!(
        !write(one.fencing_token, "too late").await,
        "fencing catches the double grant"
    );

    // The partition ends: the one that was granted by the old master is told that it is lost.
    for proxy in &proxies {
        proxy.forward();
    }
    let Response::Lost(lost) = old_side.unasked(LIMIT).await else {
        panic!("something else than a loss");
    };
    let [lost] = &lost.locks[..] else {
        panic!("not one lock: {lost:?}");
    };
    assert_eq!(lost.owner_id, one.owner_id);
    assert_eq!((&*lost.name, lost.reason()), ("stock", LostReason::Taken));
    assert!(new_side.release(&other).await);
    assert!(new_side.unread_unasked().is_empty());
    let after = take(&mut old_side, "stock").await.lock;
    assert!(other.fencing_token < after.fencing_token);
}
