//! Rolling restart: every coordinator stops and comes back, one after the other.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use leasehold_client::Client;
use leasehold_tests::{Latencies, alone::alone, report};
use tokio_util::sync::CancellationToken;

use super::load::{self, PATIENCE, Seen};
use crate::restarts::site::{Site, clients};

const CLIENTS: usize = 300;
const COORDINATORS: usize = 3;
/// Contended by so many clients each.
const TOGETHER: usize = 6;
/// Time for which a client holds a contended lock.
const HOLD: Duration = Duration::from_millis(5);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loses_no_lock_and_fails_no_acquire() {
    let _alone = alone().await;
    let mut site = Site::start(COORDINATORS);
    let builder = Client::builder()
        .client_name("rolling")
        .ttl(Duration::from_secs(20));
    let clients = clients(&builder, &site.endpoints(), CLIENTS).await;
    let seen = Arc::<Seen>::default();
    let stop = CancellationToken::new();
    let mut work = load::begin(&clients, TOGETHER, HOLD, &seen, &stop).await;
    let mut drained = Latencies::new("a coordinator's drain");
    let begun = Instant::now();
    for at in 0..COORDINATORS {
        let before = seen.cycles.load(Ordering::Relaxed);
        drained.record(site.restart(at).await);
        // The clients go on before the next one goes away.
        while seen.cycles.load(Ordering::Relaxed) < before + 2 * CLIENTS as u64 {
            assert!(begun.elapsed() < PATIENCE * 2, "the clients stand still");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    stop.cancel();
    while let Some(ended) = work.join_next().await {
        ended.unwrap();
    }
    drained.print();
    report(format_args!(
        "rolling restart of {COORDINATORS} coordinators in {:.1?}: {CLIENTS} clients, 0 locks lost, 0 acquires failed of {}, \
         the longest took {:?}",
        begun.elapsed(),
        seen.cycles.load(Ordering::Relaxed),
        Duration::from_micros(seen.longest.load(Ordering::Relaxed)),
    ));
}
