//! The rest of a released hold in Redis: its token, without its value or a long client name.

use std::time::Duration;

use leasehold_core::{
    command::{Command, End, Loss, Op, Reply},
    mode::Mode,
    name::{ClientName, Value},
};
use leasehold_store::Store;
use leasehold_tests::{RedisServer, wait};
use redis::FromRedisValue;

use crate::differential::pair::{Pair, acquire, owner, release};

const VALUE: &str = "said by the holder";
/// Longer than the names that stay.
const CLIENT: &str = "named by the client at such length that Redis had better forget the name";

async fn ask<T: FromRedisValue>(redis: &RedisServer, command: &[&str]) -> T {
    let mut cmd = redis::cmd(command[0]);
    cmd.arg(&command[1..]);
    cmd.query_async(&mut redis.async_connection().await)
        .await
        .unwrap()
}

/// Returns an acquire with a value and a client name.
fn telling(number: u16, mode: Mode) -> Op {
    let Op::Acquire(mut asked) = acquire(number, mode) else {
        panic!("it is an acquire")
    };
    asked.value = Value::parse(VALUE.as_bytes()).unwrap();
    asked.client_name = ClientName::parse(CLIENT).unwrap();
    Op::Acquire(asked)
}

/// Does the same with a lock-delay.
fn delayed(number: u16, ttl: Duration) -> Op {
    let Op::Acquire(mut asked) = telling(number, Mode::Exclusive) else {
        panic!("it is an acquire")
    };
    asked.lock_delay = Duration::from_secs(60);
    asked.ttl = ttl;
    Op::Acquire(asked)
}

fn renew(number: u16) -> Op {
    Op::Renew {
        token: None,
        owner: owner(number),
        ttl: Duration::from_secs(500),
    }
}

/// Returns whether any key has what a client said.
async fn has(redis: &RedisServer, said: &str) -> bool {
    let keys: Vec<String> = ask(redis, &["KEYS", "*"]).await;
    for key in keys {
        let kind: String = ask(redis, &["TYPE", &key]).await;
        let found: Vec<Vec<u8>> = match &*kind {
            "string" => vec![ask(redis, &["GET", &key]).await],
            "hash" => ask(redis, &["HVALS", &key]).await,
            _ => continue,
        };
        let has = |found: &Vec<u8>| found.windows(said.len()).any(|at| at == said.as_bytes());
        if found.iter().any(has) {
            return true;
        }
    }
    false
}

#[track_caller]
fn nothing_of(has_value: bool, has_client: bool) {
    assert_eq!((has_value, has_client), (false, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn however_a_hold_ends_nothing_of_what_its_client_said_is_left() {
    let redis = RedisServer::start();
    let left = async || nothing_of(has(&redis, VALUE).await, has(&redis, CLIENT).await);
    let exclusive = Mode::Exclusive;
    // Released, with nobody waiting.
    let mut pair = Pair::new(&redis, "released").await;
    pair.run("here", telling(0, exclusive)).await;
    assert!(has(&redis, VALUE).await && has(&redis, CLIENT).await);
    pair.run("here", release(0)).await;
    left().await;
    // Released by another coordinator, or while it is confirmed by none.
    pair.run("here", telling(1, exclusive)).await;
    pair.run("there", release(1)).await;
    left().await;
    // By the last of two that wait.
    for number in [2, 3] {
        pair.run("here", telling(number, exclusive)).await;
    }
    pair.run("here", release(2)).await;
    pair.run("here", release(3)).await;
    left().await;
    // Closed for its lock-delay.
    let mut pair = Pair::new(&redis, "closed").await;
    pair.run("here", delayed(0, Duration::from_secs(60))).await;
    let unclean = Op::Release {
        owner: owner(0),
        end: End::Unclean,
    };
    pair.run("here", unclean).await;
    left().await;
    // By force.
    let mut pair = Pair::new(&redis, "forced").await;
    pair.run("here", telling(0, exclusive)).await;
    pair.run("there", Op::ForceRelease).await;
    left().await;
    // Made a shared one, and released.
    let mut pair = Pair::new(&redis, "shared").await;
    pair.run("here", telling(0, exclusive)).await;
    let downgrade = Op::Downgrade { owner: owner(0) };
    pair.run("here", downgrade).await;
    pair.run("here", telling(1, Mode::Shared)).await;
    pair.run("here", release(0)).await;
    assert!(has(&redis, VALUE).await);
    pair.run("here", release(1)).await;
    left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_loss_leaves_the_clients_data_behind() {
    let redis = RedisServer::start();
    let left = async || nothing_of(has(&redis, VALUE).await, has(&redis, CLIENT).await);
    let exclusive = Mode::Exclusive;
    // Deleted, or taken by a stranger, as its renewal finds.
    let mut pair = Pair::new(&redis, "lost").await;
    pair.run("here", telling(0, exclusive)).await;
    let _: u64 = ask(&redis, &["DEL", "lock:lost"]).await;
    let lost = pair.execute_in_redis("here", renew(0)).await;
    assert_eq!(lost, Reply::Lost(Loss::Deleted));
    left().await;
    let mut pair = Pair::new(&redis, "taken").await;
    pair.run("here", telling(0, exclusive)).await;
    let _: String = ask(
        &redis,
        &["SET", "lock:taken", "a stranger's", "PX", "60000"],
    )
    .await;
    let lost = pair.execute_in_redis("here", renew(0)).await;
    assert_eq!(lost, Reply::Lost(Loss::Taken));
    left().await;
    // It has run out, as its release or a view finds.
    for (name, found_by) in [("expired", release(0)), ("viewed", Op::View { waiters: 0 })] {
        let mut pair = Pair::new(&redis, name).await;
        pair.run("here", telling(0, exclusive)).await;
        let lock = format!("lock:{name}");
        let _: u64 = ask(&redis, &["PEXPIRE", &lock, "1"]).await;
        wait::until("it to run out", Duration::from_secs(5), || async {
            let exists: u64 = ask(&redis, &["EXISTS", &lock]).await;
            if exists == 0 { Ok(()) } else { Err(exists) }
        })
        .await;
        pair.execute_in_redis("here", found_by).await;
        left().await;
    }
    // Only its lock-delay is left, for which the lock stays closed.
    for by_resume in [false, true] {
        let name = format!("delayed {by_resume}");
        let mut pair = Pair::new(&redis, &name).await;
        pair.run("here", delayed(0, Duration::from_millis(1))).await;
        wait::until("its TTL to be over", Duration::from_secs(5), || async {
            let left: u64 = ask(&redis, &["PTTL", &format!("lock:{name}")]).await;
            if left < 60_000 { Ok(()) } else { Err(left) }
        })
        .await;
        let asked = match by_resume {
            true => crate::differential::pair::resume(&[0], 1),
            false => renew(0),
        };
        for _ in 0..2 {
            assert_eq!(
                pair.run("here", asked.clone()).await,
                Reply::Lost(Loss::Expired)
            );
        }
        pair.run("here", Op::View { waiters: 0 }).await;
        left().await;
        pair.run("here", Op::ForceRelease).await;
    }
}

/// Returns how many commands Redis carries out for each cycle of an acquire and a release.
async fn commands_of_a_cycle(redis: &RedisServer, store: &Store, cycle: [Command; 2]) -> u64 {
    const CYCLES: u64 = 20;
    let counted = async || {
        let info: String = ask(redis, &["INFO", "commandstats"]).await;
        let calls = info
            .lines()
            .filter(|line| !line.starts_with("cmdstat_info"));
        let calls = calls.filter_map(|line| line.split_once(":calls=")?.1.split(',').next());
        calls
            .map(|calls| calls.parse::<u64>().unwrap())
            .sum::<u64>()
    };
    let before = counted().await;
    for _ in 0..CYCLES {
        for command in &cycle {
            store.execute(command.clone()).await.unwrap();
        }
    }
    // The coordinator asks now and then for the time.
    (counted().await - before) / CYCLES
}

#[tokio::test(flavor = "multi_thread")]
async fn stripping_costs_a_command_only_if_there_is_much_to_strip() {
    let redis = RedisServer::start();
    let store = crate::differential::connect(&redis).await;
    let pair = Pair::new(&redis, "cycle").await;
    let cycle = |op| [pair.command("here", op), pair.command("here", release(0))];
    let silent = cycle(acquire(0, Mode::Exclusive));
    // The two calls, and within each the time and whether anybody watches; whether anybody waits and two writes; whether
    // anybody waits, who holds it, and its end.
    assert_eq!(commands_of_a_cycle(&redis, &store, silent).await, 12);
    let named = |length: usize| {
        let Op::Acquire(mut asked) = acquire(0, Mode::Exclusive) else {
            panic!("it is an acquire")
        };
        asked.client_name = ClientName::parse(&"n".repeat(length)).unwrap();
        cycle(Op::Acquire(asked))
    };
    assert_eq!(commands_of_a_cycle(&redis, &store, named(64)).await, 12);
    assert_eq!(commands_of_a_cycle(&redis, &store, named(65)).await, 13);
    let valued = |value: &[u8]| {
        let Op::Acquire(mut asked) = acquire(0, Mode::Exclusive) else {
            panic!("it is an acquire")
        };
        asked.value = Value::parse(value).unwrap();
        cycle(Op::Acquire(asked))
    };
    assert_eq!(commands_of_a_cycle(&redis, &store, valued(b"v")).await, 13);
    // Nobody looks for something to strip where the coordinator says that there is nothing.
    let plain = Op::Release {
        owner: owner(0),
        end: End::Plain,
    };
    let [valued, _] = valued(b"v");
    let plain = [valued, pair.command("here", plain)];
    assert_eq!(commands_of_a_cycle(&redis, &store, plain).await, 12);
}
