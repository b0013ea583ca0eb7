//! Fixtures that the tests share.

use std::time::{Duration, Instant};

use leasehold_proto::v1::{SessionFailure, session_response::Response};
use leasehold_tests::{CoordinatorProcess, RawSession, RedisServer, Sentinels, raw::Granted, wait};
use tonic::Code;

/// TTL of the sessions: longer than a fail-over takes.
pub(crate) const TTL: Duration = Duration::from_secs(60);

/// By how much service may be back later than the sentinels themselves have failed over.
pub(crate) const BEHIND: Duration = Duration::from_secs(2);

/// Longest time for anything that depends on a fail-over. Sentinels that a busy machine held up for two seconds do nothing for
/// thirty.
pub(crate) const LIMIT: Duration = Duration::from_secs(90);

/// Returns a session that keeps itself alive.
pub(crate) async fn session(coordinator: &CoordinatorProcess) -> RawSession {
    let mut session = RawSession::open(&coordinator.endpoint(), TTL).await;
    session.keep_alive(TTL / 12);
    session
}

/// Tries once to take a free lock.
pub(crate) async fn attempt(
    session: &mut RawSession,
    name: &str,
) -> Result<Granted, SessionFailure> {
    let id = session.ask(name, Some(Duration::ZERO)).await;
    match session.answer(id, LIMIT).await {
        Response::Error(failure) => Err(failure),
        Response::Granted(granted) => {
            let [lock] = <[_; 1]>::try_from(granted.locks).expect("one lock");
            let good_until = Instant::now();
            Ok(Granted { lock, good_until })
        }
        other => panic!("{name} was answered by {other:?}"),
    }
}

/// Takes a lock that is free as soon as there is a store.
pub(crate) async fn take(session: &mut RawSession, name: &str) -> Granted {
    let deadline = Instant::now() + LIMIT;
    loop {
        match attempt(session, name).await {
            Ok(granted) => return granted,
            Err(failure) => {
                assert_eq!(failure.code, Code::Unavailable as i32, "{failure:?}");
                assert!(Instant::now() < deadline, "{failure:?}");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }
}

/// Waits until another server than `old` is the master by the word of any sentinel, and says which.
pub(crate) async fn failed_over(redis: &Sentinels, old: usize) -> usize {
    wait::until("the sentinels to fail over", LIMIT, || async {
        match redis.master() {
            new if new == old => Err("they have not"),
            new => Ok(new),
        }
    })
    .await
}

/// Waits until coordinators have left a server: none of their connections is there any more.
pub(crate) async fn is_left(server: &RedisServer) {
    let connection = server.async_connection().await;
    wait::until("coordinators to leave a server", LIMIT, || {
        let mut connection = connection.clone();
        async move {
            let mut list = redis::cmd("CLIENT");
            list.arg("LIST");
            let clients: String = list.query_async(&mut connection).await.unwrap();
            if clients.contains("name=leasehold") {
                Err(clients)
            } else {
                Ok(())
            }
        }
    })
    .await;
}

/// Returns whether a server has a lock.
pub(crate) async fn has(server: &RedisServer, name: &str) -> bool {
    let mut exists = redis::cmd("EXISTS");
    exists.arg(format!("lock:{name}"));
    let mut connection = server.async_connection().await;
    exists.query_async(&mut connection).await.unwrap()
}
