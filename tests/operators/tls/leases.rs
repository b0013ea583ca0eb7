//! Leases over TLS, which keep the same promises as those without.

use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use leasehold_tests::{
    Authority, ChildProcess, Coordinator, CoordinatorProcess, Latencies, RawSession, RedisServer,
    alone::alone,
    binaries,
    certificates::{self, Issued},
    raw::PROMPT,
    report,
};
use tonic::transport::Channel;

const TTL: Duration = Duration::from_secs(30);
const ROUNDS: usize = 200;
/// Holders are started beforehand, so that no start disturbs a measurement.
const BATCH: usize = 20;
/// Within what nine of ten are granted on a machine that is fast enough.
const WITHIN: Duration = Duration::from_millis(10);

async fn channel(coordinator: &CoordinatorProcess, authority: &Authority) -> Channel {
    let connected = authority.connect(&coordinator.endpoint(), None).await;
    connected.unwrap()
}

fn start(redis: &RedisServer, server: &Issued, flags: &[&str]) -> CoordinatorProcess {
    Coordinator::process()
        .store(redis.url())
        .arguments(server.flags())
        .arguments(flags.iter().copied())
        .start()
}

/// Left to `make soak` by `make test`.
mod soak {
    use super::*;

    #[tokio::test]
    async fn after_sigkill_of_the_holder_the_next_is_granted_at_once() {
        let _alone = alone().await;
        let redis = RedisServer::start();
        let authority = Authority::new("servers");
        let coordinator = start(&redis, &authority.server().issue(), &[]);
        let mut waiter = RawSession::open_on(channel(&coordinator, &authority).await, TTL).await;
        waiter.keep_alive(TTL / 6);
        let mut releaser = RawSession::open_on(channel(&coordinator, &authority).await, TTL).await;
        releaser.keep_alive(TTL / 6);
        let mut latencies =
            Latencies::new("from SIGKILL of the holder to the next grant, over TLS");
        let mut plain = Latencies::new("from a release to the next grant, in turns with these");
        for batch in 0..ROUNDS / BATCH {
            let mut holders = Vec::new();
            for number in 0..BATCH {
                let name = format!("kill/{batch}/{number}");
                let mut command = Command::new(binaries::path("holder"));
                command
                    .arg(coordinator.endpoint())
                    .arg(authority.ca())
                    .arg(&name)
                    .arg(TTL.as_millis().to_string())
                    .stdin(Stdio::null())
                    .stdout(Stdio::piped());
                let mut child = ChildProcess::spawn("holder", command);
                let lines = child.take_lines();
                holders.push((name, child, lines));
            }
            for (_, _, lines) in &mut holders {
                lines.expect("holding", PROMPT).await;
            }
            for (name, child, _lines) in holders {
                let id = waiter.ask(&name, None).await;
                assert_eq!(waiter.queued(id).await, 1);
                let killed = Instant::now();
                child.signal(rustix::process::Signal::KILL);
                let granted = waiter.granted(id, TTL).await;
                latencies.record(killed.elapsed());
                assert!(waiter.release(&granted.lock).await);

                plain.record(releaser.hand_over(&mut waiter, &name).await);
            }
        }
        latencies.print();
        plain.print();
        latencies.assert_within(WITHIN, &plain);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_reader_is_cut_off_and_keeps_its_lock_for_as_long_as_it_was_promised() {
    const TTL: Duration = Duration::from_secs(3);
    let _alone = alone().await;
    let redis = RedisServer::start();
    let authority = Authority::new("servers");
    let flags = [
        "--keepalive-interval=500ms",
        "--keepalive-timeout=500ms",
        "--outbound-queue=64",
    ];
    let coordinator = start(&redis, &authority.server().issue(), &flags);
    // A connection that takes in little beyond what is read from it.
    let narrow = certificates::dial(&coordinator.endpoint(), &authority.ca(), None).unwrap();
    let narrow = narrow.initial_stream_window_size(4_096);
    let mut slow = RawSession::open_on(narrow.connect().await.unwrap(), TTL).await;
    slow.acquire("slow").await;
    let mut waiter = RawSession::open_on(channel(&coordinator, &authority).await, TTL).await;
    waiter.keep_alive(TTL / 6);
    let id = waiter.ask("slow", None).await;
    assert_eq!(waiter.queued(id).await, 1);

    // Beats until it is cut off, and reads nothing.
    slow.keep_alive(Duration::ZERO);
    slow.wait_until_cut_off(TTL).await;
    let cut_off = Instant::now();
    let status = slow.end(PROMPT).await.unwrap_err();
    let until = slow.good_until().unwrap();
    waiter.granted(id, 3 * TTL).await;
    let granted = Instant::now();
    report(format!(
        "slow reader over TLS: cut off ({status}), and its lock granted {:?} later",
        granted - cut_off
    ));
    assert!(granted >= until, "granted {:?} too early", until - granted);
    let metrics = coordinator.metrics().await;
    assert_eq!(metrics.sum("leasehold_slow_readers_total"), 1.0);
}
