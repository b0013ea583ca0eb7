//! Soak tests, which `make test` leaves to `make soak`: holds while masters are replaced and slots move, and locks on the other nodes
//! meanwhile. The torture run has the same faults under load, but excuses losses for a while after each.

use std::time::{Duration, Instant};

use leasehold_client::{LockGuard, Session};
use leasehold_tests::{Cluster, Latencies, report};
use tokio::{task::block_in_place, time::timeout};

use crate::cluster::site::{LIMIT, Site, a_name_on_each, errors, names_on, slot_of};

const TTL: Duration = Duration::from_secs(10);
/// Number of fail-overs on request.
const FAIL_OVERS: usize = 12;
/// Locks that are held throughout, at each coordinator.
const HELD: usize = 30;
/// Longest time until a failed master is replaced. The nodes need their time-out of 1 s to miss it, the same again to tell one
/// another, and a delay before the vote; then the coordinator has to learn of the result.
const REPLACED: Duration = Duration::from_secs(8);
/// Cycles by which the others are measured.
const CYCLES: usize = 200;

/// Locks that are held throughout, spread over all nodes and both coordinators.
struct Holders {
    guards: Vec<LockGuard>,
    _sessions: Vec<Session>,
}

impl Holders {
    async fn start(site: &Site) -> Self {
        let (mut guards, mut sessions) = (Vec::new(), Vec::new());
        for coordinator in 0..2 {
            let session = site.session(coordinator, TTL).await;
            for lock in 0..HELD {
                let name = format!("held/{coordinator}/{lock}");
                guards.push(session.lock(name).await.unwrap());
            }
            sessions.push(session);
        }
        Self {
            guards,
            _sessions: sessions,
        }
    }

    fn assert_held(&self, when: &str) {
        for guard in &self.guards {
            assert!(guard.is_held(), "{} was lost {when}", guard.name());
        }
    }

    /// Does the same when they must have been renewed since.
    async fn assert_renewed(&self, when: &str) {
        tokio::time::sleep(TTL + TTL / 10).await;
        self.assert_held(when);
    }
}

/// Waits until the slot of a name is served again. Returns how long that took, and the longest refusal on the way.
async fn served_again(session: &Session, name: &str) -> (Duration, Duration) {
    let began = Instant::now();
    let mut longest = Duration::ZERO;
    let again = async {
        loop {
            let asked = Instant::now();
            let acquired = session.lock(name).await;
            longest = longest.max(asked.elapsed());
            match acquired {
                Ok(guard) => {
                    let _ = guard.release().await;
                    return;
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    timeout(LIMIT, again)
        .await
        .expect("the slot is served again");
    (began.elapsed(), longest)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holds_outlast_fail_overs_on_request_and_moves_of_their_slots() {
    let site = Site::start().await;
    let holders = Holders::start(&site).await;
    let probe = site.session(0, TTL).await;
    let mut back = Latencies::new("from the promotion to the next grant there");
    for round in 0..FAIL_OVERS {
        let name = &a_name_on_each()[round % 3];
        block_in_place(|| {
            let master = site.cluster.master_of(slot_of(name));
            let replica = site.cluster.replica_of(master).expect("there is a replica");
            site.cluster.fail_over(replica);
        });
        back.record(served_again(&probe, name).await.0);
        holders.assert_held(&format!("by fail-over {round}"));
        block_in_place(|| site.cluster.wait_until_ok());
    }
    report(&back);
    assert!(back.max() < Duration::from_secs(2), "{back}");
    for guard in holders.guards.iter().step_by(3) {
        let slot = slot_of(guard.name());
        block_in_place(|| {
            let from = site.cluster.master_of(slot);
            let to = (0..3).map(|on| site.cluster.master_of(on * 6_000));
            let to = to.into_iter().find(|to| *to != from).unwrap();
            site.cluster.move_slot(slot, from, to);
            // Nodes that claim the next one before all have heard of this one may raise the same epoch, and settle that by a
            // slot that nobody serves.
            site.cluster.wait_until_ok();
        });
        holders.assert_held(&format!("when the slot of {} moved", guard.name()));
    }
    holders.assert_renewed("in the end").await;
    let moved = site.cluster.nodes().iter().map(errors);
    let moved: u64 = moved
        .filter_map(|errors| errors.get("MOVED").copied())
        .sum();
    assert!(moved > 0, "the slots were in use");
    site.assert_clean();
}

/// Measures acquire and release on the nodes that are not disturbed.
async fn measure(session: &Session, what: &str) -> Latencies {
    let mut latencies = Latencies::new(what);
    let names = names_on(1)
        .zip(names_on(2))
        .flat_map(|(one, other)| [one, other]);
    for name in names.skip(10).take(CYCLES) {
        let began = Instant::now();
        let guard = session.lock(name).await.unwrap();
        guard.release().await.unwrap();
        latencies.record(began.elapsed());
    }
    report(&latencies);
    latencies
}

/// Takes the master of some slots away, and looks at what becomes of those and the others.
async fn outage(strike: impl FnOnce(&mut Cluster, usize), heal: impl FnOnce(&mut Cluster, usize)) {
    let mut site = Site::of_parts().await;
    let name = names_on(0).next().unwrap();
    let session = site.session(0, TTL).await;
    let others = site.session(0, TTL).await;
    let holders = Holders::start(&site).await;
    let before = measure(&others, "others before").await;
    let master = site.cluster.master_of(slot_of(&name));
    block_in_place(|| strike(&mut site.cluster, master));
    let ((took, longest), during) = tokio::join!(
        served_again(&session, &name),
        measure(&others, "others meanwhile")
    );
    report(format!(
        "served again after {took:?}, longest refusal {longest:?}"
    ));
    assert!(took < REPLACED, "{took:?}");
    assert!(longest < Duration::from_secs(4), "{longest:?}");
    let ratio = during.quantile(0.5).as_secs_f64() / before.quantile(0.5).as_secs_f64();
    assert!(ratio < 2.0, "{ratio}");
    holders.assert_held("while the master was gone");
    block_in_place(|| {
        heal(&mut site.cluster, master);
        site.cluster.wait_until_ok();
    });
    holders
        .assert_renewed("when the old master came back")
        .await;
    site.assert_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_dies_is_replaced_and_the_others_do_not_notice() {
    outage(Cluster::kill, Cluster::restart).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_hangs_is_replaced_and_the_others_do_not_notice() {
    outage(
        |cluster, master| cluster.pause(master),
        |cluster, master| cluster.resume(master),
    )
    .await;
}
