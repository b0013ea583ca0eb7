//! Rows 1 and 2: the time at which a lock ends.

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpStream,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use leasehold_proto::v1::lock_service_client::LockServiceClient;
use leasehold_tests::{
    RawSession, RedisServer,
    audit::{self, TtlAudit},
    raw::{self, PROMPT, acquire_request, release_request, wire},
    wait,
};
use redis::{AsyncCommands, aio::MultiplexedConnection};
use tonic::transport::Channel;

use super::{TTL, life, on_redis};

/// Takes and releases a lock until the coordinator is gone; counts how many times.
async fn acquire_and_release(
    mut client: LockServiceClient<Channel>,
    name: String,
    cycles: Arc<AtomicU64>,
) {
    loop {
        let mut request = acquire_request(&name);
        (request.ttl, request.wait) = (wire(TTL), wire(Duration::from_millis(5)));
        let Ok(response) = client.acquire(request).await else {
            return;
        };
        let owner_id = response.into_inner().owner_id;
        let release = release_request(&name, &owner_id);
        // Without a grant there is no owner id, and nothing to release.
        if !owner_id.is_empty() && client.release(release).await.is_err() {
            return;
        }
        cycles.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn row_01_setnx_then_expire_can_leave_an_immortal_lock_and_we_never_do() {
    let (server, mut coordinator, mut redis) = on_redis().await;

    // The scheme: its client dies between the two commands.
    let theirs = "SETNX then EXPIRE";
    let taken: bool = redis.set_nx(theirs, "1").await.unwrap();
    assert!(taken);
    assert_eq!(life(&mut redis, theirs).await, -1, "the lock never ends");
    let _: () = redis.del(theirs).await.unwrap();

    // Ours: the coordinator dies in the middle of a load of acquires and releases.
    let looking = TtlAudit::start(&server, Duration::ZERO).await;
    let channel = coordinator.channel().await;
    let mut session = RawSession::open(&coordinator.endpoint(), TTL).await;
    session.keep_alive(TTL / 5);
    session.acquire("row 1/held").await;
    let cycles = Arc::new(AtomicU64::new(0));
    let load: Vec<_> = (0..8)
        .map(|number| {
            let client = LockServiceClient::new(channel.clone());
            let name = format!("row 1/{}", number % 4);
            tokio::spawn(acquire_and_release(client, name, Arc::clone(&cycles)))
        })
        .collect();
    wait::until("the load to be under way", PROMPT, || async {
        let cycles = cycles.load(Ordering::Relaxed);
        if cycles > 100 { Ok(()) } else { Err(cycles) }
    })
    .await;
    coordinator.kill();
    for task in load {
        task.await.unwrap();
    }
    let keys = audit::keys(&mut redis, "lock:*").await.unwrap();
    assert!(
        keys.values().all(|life| (0..=2_000).contains(life)),
        "{keys:?}"
    );
    assert!(keys.contains_key("lock:row 1/held"), "{keys:?}");
    wait::until("the locks of the dead to end", PROMPT, || {
        let mut redis = redis.clone();
        async move {
            let keys = audit::keys(&mut redis, "lock:*").await.unwrap();
            if keys.is_empty() { Ok(()) } else { Err(keys) }
        }
    })
    .await;
    let audited = looking.finish().await;
    assert!(audited.passes > 20 && audited.keys > 100, "{audited:?}");
}

#[tokio::test]
async fn row_02_a_deadline_as_value_needs_synchronised_clocks_and_we_use_only_those_of_redis() {
    let (server, coordinator, mut redis) = on_redis().await;

    // The scheme: one whose clock is ten seconds ahead finds a deadline passed that has not.
    let theirs = "SETNX with a deadline";
    let now: (u64, u64) = redis::cmd("TIME").query_async(&mut redis).await.unwrap();
    let _: bool = redis.set_nx(theirs, now.0 + 5).await.unwrap();
    let deadline: u64 = redis.get(theirs).await.unwrap();
    let clock_of_another = now.0 + 10;
    assert!(
        clock_of_another > deadline,
        "a second holder, while the first still works"
    );

    // Ours: nothing that is sent to Redis is a time of day, and the token is Redis's own time.
    let mut monitor = Monitor::start(&server);
    let mut session = RawSession::open(&coordinator.endpoint(), TTL).await;
    let before: (i64, i64) = redis::cmd("TIME").query_async(&mut redis).await.unwrap();
    let first = session.acquire("row 2").await;
    let after: (i64, i64) = redis::cmd("TIME").query_async(&mut redis).await.unwrap();
    let token = first.lock.fencing_token;
    let micros = |time: (i64, i64)| time.0 * 1_000_000 + time.1;
    assert!(
        (micros(before)..=micros(after)).contains(&token),
        "{before:?} {token} {after:?}"
    );
    assert!(session.release(&first.lock).await);
    let second = session.acquire("row 2").await;
    assert!(second.lock.fencing_token > token);

    let seen = monitor.arguments(&mut redis).await;
    assert!(seen.len() > 5, "{seen:?}");
    let hour = 3_600;
    for argument in seen {
        let Ok(number) = argument.parse::<i64>() else {
            continue;
        };
        for (unit, scale) in [("s", 1), ("ms", 1_000)] {
            let off = (number / scale - before.0).abs();
            assert!(off > hour, "a time of day in {unit} was sent: {number}");
        }
    }
}

/// Redis's MONITOR: every command with its arguments.
struct Monitor {
    lines: BufReader<TcpStream>,
}

impl Monitor {
    fn start(server: &RedisServer) -> Self {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(raw::PROMPT)).unwrap();
        stream.write_all(b"MONITOR\r\n").unwrap();
        let mut lines = BufReader::new(stream);
        let mut answer = String::new();
        lines.read_line(&mut answer).unwrap();
        assert_eq!(answer.trim_end(), "+OK");
        Self { lines }
    }

    /// Returns the arguments of every command from outside up to now, without quotes.
    async fn arguments(&mut self, redis: &mut MultiplexedConnection) -> Vec<String> {
        let last = "the end of what is monitored";
        let _: String = redis::cmd("ECHO")
            .arg(last)
            .query_async(redis)
            .await
            .unwrap();
        let mut arguments = Vec::new();
        loop {
            let mut line = String::new();
            self.lines.read_line(&mut line).unwrap();
            if line.contains(last) {
                return arguments;
            }
            // +1700000000.000000 [0 127.0.0.1:50000] "SET" "key" "value"
            let (source, command) = line.split_once("] ").unwrap();
            if !source.ends_with(" lua") {
                let parts = command.trim_end().split('"');
                arguments.extend(parts.skip(1).step_by(2).map(ToOwned::to_owned));
            }
        }
    }
}
