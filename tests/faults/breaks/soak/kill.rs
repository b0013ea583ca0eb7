//! Death of a holder's process: the next waiter is granted at once.

use std::time::{Duration, Instant};

use leasehold_tests::{Coordinator, Latencies, RawSession, RedisServer, Worker};

const TTL: Duration = Duration::from_secs(30);
/// Within what nine of ten are granted on a machine that is fast enough.
const WITHIN: Duration = Duration::from_millis(10);
const BATCHES: usize = 8;
/// Workers are started beforehand, so that no start disturbs a measurement.
const BATCH: usize = 30;

#[tokio::test]
async fn after_sigkill_of_the_holder_the_next_is_granted_at_once() {
    let redis = RedisServer::start();
    let coordinator = Coordinator::process().store(redis.url()).start();
    let mut waiter = RawSession::open(&coordinator.endpoint(), TTL).await;
    waiter.keep_alive(TTL / 6);
    let mut releaser = RawSession::open(&coordinator.endpoint(), TTL).await;
    releaser.keep_alive(TTL / 6);
    let mut latencies = Latencies::new("from SIGKILL of the holder to the next grant");
    let mut plain = Latencies::new("from a release to the next grant, in turns with these");
    for batch in 0..BATCHES {
        let mut workers: Vec<_> = (0..BATCH)
            .map(|_| Worker::start(&coordinator.endpoint(), TTL))
            .collect();
        for worker in &mut workers {
            worker.ready().await;
        }
        for (number, mut worker) in workers.into_iter().enumerate() {
            let name = format!("kill/{batch}/{number}");
            let token = worker.acquire(&name).await;
            let id = waiter.ask(&name, None).await;
            assert_eq!(waiter.queued(id).await, 1);
            let killed = Instant::now();
            worker.child().signal(rustix::process::Signal::KILL);
            let granted = waiter.granted(id, TTL).await;
            latencies.record(killed.elapsed());
            assert!(granted.lock.fencing_token > token);
            assert!(waiter.release(&granted.lock).await);

            plain.record(releaser.hand_over(&mut waiter, &name).await);
        }
    }
    latencies.print();
    plain.print();
    latencies.assert_within(WITHIN, &plain);
}
