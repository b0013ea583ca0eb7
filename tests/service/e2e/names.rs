//! Names are matched whole: a name beneath another, one that it begins with, and one that differs by case are locks of
//! their own; an election is the lock of its name (etcd's website #710: the key `path/1` blocked the lock `path`).

use leasehold_client::{Admin, Client, LockEventKind, LockGuard, LockWatchEvent, LockWatcher};
use leasehold_tests::{Coordinator, RedisServer, raw::PROMPT};
use tokio::time::timeout;

const NAMES: [&str; 6] = ["path", "path/", "path/1", "path/1/2", "Path", "pat"];

/// Asserts that a lock is held.
async fn is_held(client: &Client, name: &str) {
    assert!(
        client.lock(name).try_acquire().await.unwrap().is_none(),
        "{name} is free"
    );
}

/// Takes a lock that is free.
async fn take(client: &Client, name: &str) -> LockGuard {
    client.lock(name).try_acquire().await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn names_beneath_each_other_and_in_other_case_are_locks_of_their_own() {
    let redis = RedisServer::start();
    let coordinators = [
        Coordinator::process().start(),
        Coordinator::process().store(redis.url()).start(),
    ];
    for coordinator in coordinators {
        let client = Client::connect(coordinator.endpoint()).await.unwrap();
        let other = Client::connect(coordinator.endpoint()).await.unwrap();
        let mut guards = Vec::new();
        for name in NAMES {
            guards.push(take(&client, name).await);
        }
        for (number, name) in NAMES.into_iter().enumerate() {
            // Its release lets its own waiter in, and leaves the others as they are.
            let waiting = tokio::spawn(other.lock(name).wait(PROMPT).into_future());
            guards.remove(0).release().await.unwrap();
            let next = waiting.await.unwrap().unwrap();
            for still in NAMES.iter().skip(number + 1) {
                is_held(&other, still).await;
            }
            next.release().await.unwrap();
            guards.push(take(&client, name).await);
        }
        assert!(guards.iter().all(|guard| guard.is_held()));
        // A force release takes one of them.
        let admin = Admin::connect(coordinator.endpoint()).unwrap();
        assert!(admin.force_release("path").await.unwrap().released);
        timeout(PROMPT, guards[0].lost()).await.unwrap();
        for (guard, name) in guards.iter().zip(NAMES).skip(1) {
            is_held(&other, name).await;
            assert!(guard.is_held(), "{name}");
        }
    }
}

/// Returns the names of the grants that a watcher is told of, up to and with this one.
async fn granted_up_to(watcher: &mut LockWatcher, last: &str) -> Vec<String> {
    let mut names = Vec::new();
    while names.last().is_none_or(|name| name != last) {
        let news = timeout(PROMPT, watcher.next()).await.unwrap();
        if let LockWatchEvent::Event(event) = news.unwrap().unwrap()
            && event.kind == LockEventKind::Granted
        {
            names.push(event.name);
        }
    }
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_follows_its_prefix_to_the_letter() {
    let redis = RedisServer::start();
    let coordinator = Coordinator::process().store(redis.url()).start();
    let client = Client::connect(coordinator.endpoint()).await.unwrap();
    for (prefix, wanted) in [
        ("path/1", &["path/1", "path/1/2", "path/1/end"][..]),
        ("path/", &["path/", "path/1", "path/1/2", "path/end"]),
        ("Path", &["Path", "Path/end"]),
    ] {
        let mut watcher = client.admin().watch_locks(prefix);
        while timeout(PROMPT, watcher.next())
            .await
            .unwrap()
            .unwrap()
            .unwrap()
            != LockWatchEvent::Ready
        {}
        for name in NAMES {
            let guard = client.lock(name).wait(PROMPT).await;
            guard.unwrap().release().await.unwrap();
        }
        let end = wanted[wanted.len() - 1];
        take(&client, end).await.release().await.unwrap();
        assert_eq!(granted_up_to(&mut watcher, end).await, wanted, "{prefix}");
    }
}
