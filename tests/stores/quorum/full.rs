//! Masters without memory left.

use leasehold_core::{
    command::{Op, Reply, Resume},
    id::SessionId,
    name::{ClientName, Value},
};
use leasehold_tests::{Masters, RedisServer, wait};
use redis::Commands;

use crate::quorum::site::{
    LONG, PROMPT, acquire, all_hold, long, owner, release, released, renew_for, run, store, take,
    try_run, try_run_by,
};

/// Bytes that a hold may take more on a master once it was resumed, by its session's id and its count.
const RESUMED: u64 = 128;

/// Returns how much the keys of a master take that are of a lock.
fn size(server: &RedisServer) -> u64 {
    let mut connection = server.connection();
    let keys: Vec<Vec<u8>> = connection.keys("*lock:*").unwrap();
    let sizes = keys.iter().map(|key| {
        let mut usage = redis::cmd("MEMORY");
        usage.arg("USAGE").arg(key).arg("SAMPLES").arg(0);
        let bytes: Option<u64> = usage.query(&mut connection).unwrap();
        bytes.unwrap_or_default()
    });
    sizes.sum()
}

/// Waits until coordinators have confirmed their agreement on a master, which they do regularly: it lasts longer again then.
async fn agreed_again(server: &RedisServer) {
    let mut connection = server.connection();
    let mut before: Option<i64> = None;
    wait::until("the agreement to be confirmed", PROMPT, || {
        let left: i64 = connection.pttl("lh:quorum:lock:").unwrap();
        let is_longer = before.replace(left).is_some_and(|before| left > before);
        std::future::ready(if is_longer { Ok(()) } else { Err(left) })
    })
    .await;
}

fn resume(from: u8, next: u8) -> Op {
    // Ids that nobody ever had, too.
    let tried = (150..214).map(owner);
    Op::Resume(Resume {
        from: [owner(from)].into_iter().chain(tried).collect(),
        next: owner(next),
        session: Some(SessionId::from_bytes([next; 16])),
        client_name: ClientName::parse(&"n".repeat(256)).unwrap(),
        ttl: LONG,
        count: 3,
        max_hold: None,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn full_masters_grow_no_further_and_let_holders_go_on_and_let_go() {
    const TIMES: u8 = 20;
    let masters = Masters::start(3);
    let here = store(&masters, "here").await;
    let there = store(&masters, "there").await;
    take(&here, long(1)).await;
    all_hold(&masters, Some(1)).await;
    for server in masters.servers() {
        let mut set = redis::cmd("CONFIG");
        set.arg("SET").arg("maxmemory").arg(1);
        set.exec(&mut server.connection()).unwrap();
    }
    for server in masters.servers() {
        agreed_again(server).await;
    }
    let sizes = || masters.servers().iter().map(size);
    let before: Vec<u64> = sizes().collect();
    for number in 1..TIMES {
        let (store, by) = match number % 2 {
            0 => (&here, "here"),
            _ => (&there, "there"),
        };
        let moved = try_run_by(store, by, resume(number, number + 1)).await;
        let reply = moved.unwrap().executed.reply;
        assert!(matches!(reply, Reply::Resumed { .. }), "{reply:?}");
        let large = Op::SetValue {
            owner: owner(number + 1),
            value: Value::parse(&[7; 4096]).unwrap(),
        };
        assert!(try_run_by(store, by, large).await.is_err());
        let taken = try_run(&here, Op::Acquire(acquire(100 + number))).await;
        let is_granted = |reply: &Reply| matches!(reply, Reply::Granted { .. });
        assert!(!taken.is_ok_and(|stamped| is_granted(&stamped.executed.reply)));
    }
    let renewed = run(&here, renew_for(LONG, TIMES)).await.reply;
    assert_eq!(renewed, Reply::Renewed);
    for (before, after) in before.iter().zip(sizes()) {
        assert!(
            after <= before + RESUMED,
            "{before} bytes became {after} on a master"
        );
    }
    assert_eq!(run(&here, release(TIMES)).await.reply, released(true));
    assert!(sizes().zip(&before).all(|(after, before)| after < *before));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_is_resumed_again_and_again_keeps_a_bounded_number_of_owner_ids() {
    const TIMES: u8 = 100;
    let masters = Masters::start(3);
    let here = store(&masters, "here").await;
    take(&here, long(1)).await;
    for number in 1..TIMES {
        let reply = run(&here, resume(number, number + 1)).await.reply;
        assert!(matches!(reply, Reply::Resumed { .. }), "{reply:?}");
    }
    for server in masters.servers() {
        let mut connection = server.connection();
        let keys: Vec<Vec<u8>> = connection.keys("*:replaced:*").unwrap();
        for key in keys {
            let number: usize = connection.zcard(key).unwrap();
            assert!((1..=128).contains(&number), "{number}");
        }
    }
}
