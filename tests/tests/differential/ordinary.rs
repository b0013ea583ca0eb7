//! The number of commands that the script needs for the most frequent operations, with a token that is not ahead of the clock.

use std::{collections::BTreeMap, time::Duration};

use leasehold_core::{command::Op, mode::Mode};
use leasehold_tests::RedisServer;

use crate::pair::{Pair, acquire, owner, release};

/// Cycles that count.
const CYCLES: u16 = 10;

/// Has Redis count from here on.
fn reset(redis: &RedisServer) {
    redis::cmd("CONFIG")
        .arg("RESETSTAT")
        .exec(&mut redis.connection())
        .unwrap();
}

/// Compares the commands of a cycle, those in scripts too, with the expected ones. `now_and_then` depends on the time.
fn compare(redis: &RedisServer, now_and_then: Option<&str>, expected: &[(&str, u64)]) {
    let stats: String = redis::cmd("INFO")
        .arg("commandstats")
        .query(&mut redis.connection())
        .unwrap();
    let counted = stats.lines().filter_map(|line| {
        let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        let calls: u64 = rest.split(',').next()?.parse().ok()?;
        // What the test asks for itself, and what its connections do once.
        let own = ["info", "config|resetstat", "hello", "select", "ping"];
        let is_own =
            own.contains(&name) || name.starts_with("client|") || now_and_then == Some(name);
        (!is_own).then(|| (name.to_owned(), calls))
    });
    let cycles = u64::from(CYCLES);
    let expected = expected
        .iter()
        .map(|(name, calls)| ((*name).to_owned(), calls * cycles));
    assert_eq!(
        counted.collect::<BTreeMap<_, _>>(),
        expected.collect::<BTreeMap<_, _>>()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_uncontended_acquire_renewal_and_release_take_few_commands() {
    let redis = RedisServer::start();
    let mut pair = Pair::new(&redis, "ordinary").await;
    // The record is there in each of the cycles that count.
    pair.run("here", acquire(0, Mode::Exclusive)).await;
    pair.run("here", release(0)).await;
    reset(&redis);
    for number in 1..=CYCLES {
        pair.run("here", acquire(number, Mode::Exclusive)).await;
        let renew = Op::Renew {
            token: None,
            owner: owner(number),
            ttl: Duration::from_secs(600),
        };
        pair.run("here", renew).await;
        pair.run("here", release(number)).await;
    }
    let expected = [
        ("del", 1),
        ("evalsha", 3),
        ("exists", 2),
        ("getex", 1),
        ("mget", 2),
        ("pexpire", 1),
        ("pubsub|numpat", 3),
        ("set", 2),
        ("time", 3),
    ];
    compare(&redis, None, &expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hand_off_and_the_acquire_that_follows_take_few_commands() {
    const WAITERS: u16 = 3;
    let redis = RedisServer::start();
    let mut pair = Pair::new(&redis, "contended").await;
    for number in 0..=WAITERS {
        pair.run("here", acquire(number, Mode::Exclusive)).await;
    }
    reset(&redis);
    for number in 0..CYCLES {
        pair.run("here", release(number)).await;
        let next = acquire(number + WAITERS + 1, Mode::Exclusive);
        pair.run("here", next).await;
    }
    let expected = [
        ("evalsha", 2),
        ("exists", 2),
        ("get", 1),
        ("hdel", 1),
        ("hget", 2),
        ("hmget", 1),
        ("hset", 1),
        ("mget", 1),
        ("pttl", 1),
        ("pubsub|numpat", 2),
        ("set", 2),
        ("time", 2),
        ("zadd", 1),
        ("zlexcount", 1),
        ("zrangebylex", 1),
        ("zrem", 1),
    ];
    // The queue's expiry is extended once a second.
    compare(&redis, Some("pexpire"), &expected);
}
