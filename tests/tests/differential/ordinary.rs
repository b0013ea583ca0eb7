//! The number of commands that the script needs for the most frequent operations, with a token that is not ahead of the clock.

use std::{collections::BTreeMap, time::Duration};

use leasehold_core::{command::Op, mode::Mode};
use leasehold_tests::RedisServer;

use crate::pair::{Pair, acquire, owner, release};

/// Returns the commands that touch keys, by how often Redis carried them out, inside scripts too.
fn counts(redis: &RedisServer) -> BTreeMap<String, u64> {
    let mut info = redis::cmd("INFO");
    let stats: String = info
        .arg("commandstats")
        .query(&mut redis.connection())
        .unwrap();
    let touching = [
        "del",
        "exists",
        "expire",
        "get",
        "getex",
        "hget",
        "hset",
        "mget",
        "pexpire",
        "pexpireat",
        "pttl",
        "set",
        "zadd",
        "zscore",
    ];
    stats
        .lines()
        .filter_map(|line| {
            let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            let calls = rest.split(',').next()?.parse().ok()?;
            touching.contains(&name).then(|| (name.to_owned(), calls))
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_uncontended_acquire_renewal_and_release_touch_few_keys() {
    const CYCLES: u64 = 10;
    let redis = RedisServer::start();
    let mut pair = Pair::new(&redis, "ordinary").await;
    // The record is there in each of the cycles that count.
    pair.run("here", acquire(0, Mode::Exclusive)).await;
    pair.run("here", release(0)).await;
    redis::cmd("CONFIG")
        .arg("RESETSTAT")
        .exec(&mut redis.connection())
        .unwrap();
    for number in 1..=10 {
        pair.run("here", acquire(number, Mode::Exclusive)).await;
        let renew = Op::Renew {
            owner: owner(number),
            ttl: Duration::from_secs(600),
        };
        pair.run("here", renew).await;
        pair.run("here", release(number)).await;
    }
    let expected = [
        ("del", 1),
        ("exists", 2),
        ("getex", 1),
        ("mget", 2),
        ("pexpire", 1),
        ("set", 2),
    ];
    let expected = expected.map(|(name, calls)| (name.to_owned(), calls * CYCLES));
    assert_eq!(counts(&redis), BTreeMap::from(expected));
}
