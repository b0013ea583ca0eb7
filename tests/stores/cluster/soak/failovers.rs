//! Replicas that are ordered to take over, time and again, under load.

use std::time::{Duration, Instant};

use leasehold_tests::{Latencies, alone::alone, report, soak};
use tokio::{task::block_in_place, time::timeout};

use super::load::{BOUND, Holders, Load};
use crate::cluster::site::{LIMIT, Site, a_name_on_each, slot_of};

/// Number of fail-overs, in the full form and in the short one.
const FAIL_OVERS: (usize, usize) = (25, 6);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_manual_fail_overs_under_load_none_hangs() {
    let fail_overs = soak::either(FAIL_OVERS.0, FAIL_OVERS.1);
    let _alone = alone().await;
    let site = Site::start().await;
    let holders = Holders::start(&site, 60).await;
    let load = Load::start(&site).await;
    let probe = site.session(0, Duration::from_secs(10)).await;
    let mut back = Latencies::new("from the promotion to the next grant there");
    for round in 0..fail_overs {
        let name = &a_name_on_each()[round % 3];
        let slot = slot_of(name);
        block_in_place(|| {
            let master = site.cluster.master_of(slot);
            let replica = site.cluster.replica_of(master).expect("there is a replica");
            site.cluster.fail_over(replica);
        });
        let promoted = Instant::now();
        let granted = async {
            loop {
                if let Ok(guard) = probe.lock(&**name).await {
                    let _ = guard.release().await;
                    return;
                }
            }
        };
        timeout(LIMIT, granted)
            .await
            .expect("the slot is served again");
        back.record(promoted.elapsed());
        holders.assert_held(&format!("by fail-over {round}"));
        block_in_place(|| site.cluster.wait_until_ok());
    }
    let done = load.stop().await;
    report(&back);
    report(format!("{fail_overs} manual fail-overs: {done}"));
    assert!(back.max() < Duration::from_secs(2), "{back}");
    assert!(done.longest < BOUND, "{:?}", done.longest);
    assert!(done.lost.is_empty(), "{:?}", done.lost);
    assert!(done.doubled.is_empty(), "{:?}", done.doubled);
    assert!(done.cycles > fail_overs * 20, "{}", done.cycles);
    holders.assert_held("in the end");
    site.assert_clean();
}
