//! Slots that go from node to node and back, under load.

use std::time::Duration;

use leasehold_tests::{alone::alone, report, soak};
use tokio::task::block_in_place;

use super::load::{BOUND, Holders, Load};
use crate::cluster::site::{Site, errors, slot_of};

/// Number of rounds, in the full form and in the short one.
const ROUNDS: (usize, usize) = (2, 1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_are_moved_under_load_and_nothing_is_lost() {
    let _alone = alone().await;
    let site = Site::start().await;
    let holders = Holders::start(&site, 60).await;
    let load = Load::start(&site).await;
    // Those of held locks, and of all names that many want.
    let held = (0..20).map(|lock| format!("held/{}/{lock}", lock % 2));
    let names = held.chain((0..6).map(|number| format!("shared/{number}")));
    let slots: Vec<u16> = names.map(|name| slot_of(&name)).collect();
    let rounds = soak::either(ROUNDS.0, ROUNDS.1);
    for round in 0..rounds {
        for slot in &slots {
            block_in_place(|| {
                let from = site.cluster.master_of(*slot);
                site.cluster.move_slot(*slot, from, (from + 1) % 3);
                // Nodes that claim the next one before all have heard of this one may raise the same epoch, and settle that
                // by a slot that nobody serves.
                site.cluster.wait_until_ok();
            });
        }
        holders.assert_held(&format!("in round {round}"));
    }
    // Longer than their TTL, so that they must have been renewed since.
    tokio::time::sleep(Duration::from_secs(11)).await;
    holders.assert_held("in the end");
    let done = load.stop().await;
    report(format!("{} slots moved: {done}", rounds * slots.len()));
    assert!(done.longest < BOUND, "{:?}", done.longest);
    assert!(done.lost.is_empty(), "{:?}", done.lost);
    assert!(done.doubled.is_empty(), "{:?}", done.doubled);
    let moved: u64 = site
        .cluster
        .nodes()
        .iter()
        .filter_map(|node| errors(node).get("MOVED").copied())
        .sum();
    assert!(moved > 0, "the slots were in use");
    site.assert_clean();
}
