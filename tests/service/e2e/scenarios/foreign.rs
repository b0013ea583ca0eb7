//! Row 5: `SET key uuid NX PX` with a compare-and-delete script is correct on one Redis, and our lock key is exactly that:
//! such clients and Leasehold exclude each other on the same key.

use std::time::{Duration, Instant};

use leasehold_proto::v1::{AcquireOutcome, session_response::Response};
use leasehold_tests::{Coordinator, RawSession, RedisServer, raw::PROMPT};
use redis::{AsyncCommands, aio::MultiplexedConnection};

use super::set_nx_px;

const LIMIT: Duration = Duration::from_secs(10);

/// Script that such clients send, to the letter.
const COMPARE_AND_DELETE: &str = "if redis.call(\"get\",KEYS[1]) == ARGV[1] then return redis.call(\"del\",KEYS[1]) else return 0 end";

async fn compare_and_delete(redis: &mut MultiplexedConnection, key: &str, uuid: &str) -> bool {
    let mut eval = redis::cmd("EVAL");
    eval.arg(COMPARE_AND_DELETE).arg(1).arg(key).arg(uuid);
    eval.query_async(redis).await.unwrap()
}

/// Asks without waiting; the answer if it is not a grant.
async fn refused(session: &mut RawSession, name: &str) -> (AcquireOutcome, bool) {
    let id = session.ask(name, Some(Duration::ZERO)).await;
    match session.answer(id, PROMPT).await {
        Response::NotGranted(answer) => {
            let foreign = answer.holder.as_ref().is_some_and(|holder| holder.foreign);
            (answer.outcome(), foreign)
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn row_05_set_nx_px_with_uuid_excludes_us_and_we_exclude_it() {
    excludes_both_ways("lock:", &[]).await;
}

#[tokio::test]
async fn row_05_an_applications_own_key_prefix_excludes_both_ways() {
    excludes_both_ways("app:{jobs}:", &["--key-prefix", "app:{jobs}:"]).await;
}

/// Has a hand-written locker and a coordinator compete for the keys under a prefix.
async fn excludes_both_ways(prefix: &str, arguments: &[&str]) {
    let server = RedisServer::start();
    let coordinator = Coordinator::process()
        .store(server.url())
        .arguments(arguments.iter().copied())
        .start();
    let mut redis = server.async_connection().await;
    let mut session = RawSession::open(&coordinator.endpoint(), LIMIT).await;
    session.keep_alive(Duration::from_secs(2));
    let key = &*format!("{prefix}row 5");
    let uuid = "5c0c1a70-6b0c-4f0e-9a0f-2f3f5d5c7a11";
    // Keys under another prefix are nobody's locks here.
    for elsewhere in ["row 5", "other:row 5"] {
        assert!(set_nx_px(&mut redis, elsewhere, uuid, 60_000).await);
    }
    let free = session.acquire("row 5").await;
    assert!(session.release(&free.lock).await);

    // Theirs keeps us out, and is not ours to release; its end lets us in.
    assert!(set_nx_px(&mut redis, key, uuid, 60_000).await);
    assert_eq!(
        refused(&mut session, "row 5").await,
        (AcquireOutcome::Busy, true)
    );
    let waiting = session.ask("row 5", None).await;
    session.queued(waiting).await;
    let value: String = redis.get(key).await.unwrap();
    assert_eq!(value, uuid);
    assert!(compare_and_delete(&mut redis, key, uuid).await);
    // Foreign clients publish nothing: the waiter polls.
    let ours = session.granted(waiting, PROMPT).await;

    // Ours keeps them out, and is not theirs to release; its end lets them in.
    assert!(!set_nx_px(&mut redis, key, uuid, 60_000).await);
    assert!(!compare_and_delete(&mut redis, key, uuid).await);
    let life: i64 = redis.pttl(key).await.unwrap();
    assert!((1..=10_000).contains(&life), "{life}");
    assert!(session.release(&ours.lock).await);

    // Theirs runs out: we are let in then, not before.
    let began = Instant::now();
    assert!(set_nx_px(&mut redis, key, uuid, 700).await);
    let id = session.ask("row 5", Some(LIMIT)).await;
    let next = session.granted(id, PROMPT).await;
    let took = began.elapsed();
    assert!(took > Duration::from_millis(650), "{took:?}");
    assert!(next.lock.fencing_token > ours.lock.fencing_token);
}
