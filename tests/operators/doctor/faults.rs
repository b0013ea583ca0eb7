//! Faults of coordinators and of their store, each of which is found.

use std::time::Duration;

use leasehold_tests::{Coordinator, Masters, RawSession, WallClock};

use super::site::{doctor, durable, endpoints, guarded, two, until};

const TTL: Duration = Duration::from_secs(10);
const HOUR: i64 = 3_600_000_000;

#[test]
fn redis_is_down() {
    let mut redis = durable().start();
    let coordinator = Coordinator::process().store(redis.url()).start();
    redis.kill();
    let expected = [
        ("coordinator-not-serving", "error"),
        ("store-unreachable", "error"),
    ];
    let told = until(&coordinator.endpoint(), Some(&redis.url()), &expected);
    assert_eq!(told.code, 6);
    let finding = told.finding("store-unreachable");
    let subject = format!("Redis at {}", redis.address());
    assert_eq!(finding["subject"], subject);
    assert_eq!(finding["link"], "docs/doctor.md#store-unreachable");
    for field in ["what", "why", "remedy"] {
        assert!(!finding[field].as_str().unwrap().is_empty(), "{finding}");
    }
}

#[test]
fn the_password_is_wrong() {
    let redis = durable().password("secret").start();
    let wrong = redis.url().replace("secret", "hunter2");
    let coordinator = Coordinator::process().store(&wrong).start_unready();
    let expected = [
        ("coordinator-not-serving", "error"),
        ("store-refuses", "error"),
    ];
    let told = until(&coordinator.endpoint(), Some(&wrong), &expected);
    assert!(!told.document.to_string().contains("hunter2"), "{told:?}");
    let what = told.finding("store-refuses")["what"].as_str().unwrap();
    assert!(
        what.starts_with("it refused the user or password"),
        "{what}"
    );
    // With the right one, the store is well, and the coordinator is not.
    let told = doctor(&coordinator.endpoint(), Some(&redis.url()), &[]);
    assert_eq!(told.kinds(), expected[..1]);
}

#[test]
fn redis_evicts_and_is_full() {
    let options = durable().arguments(["--maxmemory-policy", "allkeys-lru"]);
    let redis = options.start();
    let coordinator = Coordinator::process().store(redis.url()).start();
    let endpoint = coordinator.endpoint();
    let warning = [("evicts", "warning")];
    assert_eq!(doctor(&endpoint, Some(&redis.url()), &[]).kinds(), warning);
    let mut connection = redis.connection();
    let mut set = |setting: &str, value: &str| {
        let mut command = redis::cmd("CONFIG");
        command.arg("SET").arg(setting).arg(value);
        command.exec(&mut connection).unwrap();
    };
    set("maxmemory", "100mb");
    let error = [("evicts", "error")];
    assert_eq!(doctor(&endpoint, Some(&redis.url()), &[]).kinds(), error);
    set("maxmemory-policy", "noeviction");
    set("maxmemory", "1mb");
    let told = doctor(&endpoint, Some(&redis.url()), &[]);
    assert_eq!(
        told.finding("limit-near")["subject"],
        format!("Redis at {}", redis.address())
    );
}

#[test]
fn masters_of_a_quorum_have_no_vote_or_are_away() {
    let mut redis = Masters::start_with(&durable(), 3).bootstrapped();
    let store = format!("redis+quorum://{}", redis.hosts());
    let coordinators = two(&store, &["--max-ttl", "1m"]);
    let endpoints = endpoints(&coordinators);
    until(&endpoints, Some(&store), &[]);
    redis.kill(0);
    until(
        &endpoints,
        Some(&store),
        &[("store-unreachable", "warning")],
    );
    redis.restart(0);
    let told = until(&endpoints, Some(&store), &[("quorum-standing", "warning")]);
    let what = told.finding("quorum-standing")["what"].as_str().unwrap();
    assert!(what.contains(" min"), "{what}");
}

#[test]
fn the_clock_of_redis_is_an_hour_off() {
    let clock = WallClock::make();
    let redis = clock.of(durable()).start();
    let coordinators = two(&redis.url(), &[]);
    let endpoints = endpoints(&coordinators);
    until(&endpoints, Some(&redis.url()), &[]);
    for ahead in [HOUR, -HOUR] {
        clock.set_ahead(ahead);
        let told = until(&endpoints, Some(&redis.url()), &[("clock-drift", "error")]);
        let finding = told.finding("clock-drift");
        assert_eq!(finding["subject"], format!("Redis at {}", redis.address()));
        let what = finding["what"].as_str().unwrap();
        let side = if ahead > 0 { "ahead of" } else { "behind" };
        assert!(what.contains(&format!("min {side} the others")), "{what}");
    }
}

#[test]
fn a_replica_is_away() {
    let mut redis = guarded().start();
    let store = redis.url();
    let coordinator = Coordinator::process().store(&store).start();
    let endpoint = coordinator.endpoint();
    redis.redis_mut().server_mut(1).kill();
    let told = until(&endpoint, Some(&store), &[("replica-away", "warning")]);
    assert_eq!(
        told.finding("replica-away")["what"],
        "1 of 2 replicas are in step"
    );
    redis.kill_sentinel(2);
    let expected = [("sentinel-away", "warning"), ("replica-away", "warning")];
    until(&endpoint, Some(&store), &expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_coordinator_drains() {
    let redis = durable().start();
    let coordinators = two(&redis.url(), &["--drain-timeout", "30s"]);
    let mut session = RawSession::open(&coordinators[0].endpoint(), TTL).await;
    session.keep_alive(TTL / 20);
    coordinators[0].terminate();
    let told = until(
        &endpoints(&coordinators),
        Some(&redis.url()),
        &[("coordinator-draining", "warning")],
    );
    let address = coordinators[0].endpoint().replace("http://", "");
    assert_eq!(told.finding("coordinator-draining")["subject"], address);
    assert_eq!(told.code, 6);
    drop(session);
}

#[test]
fn coordinators_disagree() {
    let redis = durable().start();
    let start = |arguments: &[&str], store: &str| {
        let options = Coordinator::process().store(store);
        options.arguments(arguments.iter().copied()).start()
    };
    let first = start(&[], &redis.url());
    for (arguments, store, check, severity) in [
        (
            &["--key-prefix", "other:"][..],
            redis.url(),
            "prefixes-differ",
            "error",
        ),
        (
            &["--max-ttl", "1m"],
            redis.url(),
            "ttl-bounds-differ",
            "warning",
        ),
        (&[], format!("{}/1", redis.url()), "stores-differ", "error"),
    ] {
        let other = start(arguments, &store);
        let both = format!("{},{}", first.endpoint(), other.endpoint());
        let told = doctor(&both, Some(&redis.url()), &[]);
        assert_eq!(told.kinds(), [(check, severity)], "{told:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_belong_to_a_coordinator_that_was_not_named() {
    let redis = durable().start();
    let coordinators = two(&redis.url(), &[]);
    let [a, b] = coordinators.each_ref().map(|one| one.endpoint());
    let mut holder = RawSession::open(&a, TTL).await;
    holder.keep_alive(TTL / 20);
    holder.acquire("stray").await;
    let mut waiter = RawSession::open(&b, TTL).await;
    waiter.keep_alive(TTL / 20);
    waiter.ask("stray", None).await;
    let told = until(&a, Some(&redis.url()), &[("stray-waiters", "warning")]);
    let finding = told.finding("stray-waiters");
    assert!(
        finding["subject"].as_str().unwrap().starts_with("b-"),
        "{finding}"
    );
    assert!(
        finding["what"].as_str().unwrap().contains("\"stray\""),
        "{finding}"
    );
}
