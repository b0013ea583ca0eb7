//! Masters that die or hang, under load.

use std::time::{Duration, Instant};

use leasehold_client::Session;
use leasehold_tests::{Latencies, alone::alone, report};
use tokio::{task::block_in_place, time::timeout};

use super::load::{BOUND, Done, Holders, Load};
use crate::cluster::site::{LIMIT, Site, names_on, slot_of, timed};

/// Longest time until a failed master is replaced. The nodes need their time-out of 1 s to miss it, the same again to tell one
/// another, and a delay before the vote; then the coordinator has to learn of the result.
const REPLACED: Duration = Duration::from_secs(8);
/// Cycles by which the others are measured.
const CYCLES: usize = 200;

/// Measures acquire and release on the nodes that are not disturbed.
async fn measure(session: &Session, what: &str) -> Latencies {
    let mut latencies = Latencies::new(what);
    let names = names_on(1)
        .zip(names_on(2))
        .flat_map(|(one, other)| [one, other]);
    for name in names.skip(10).take(CYCLES) {
        let cycle = async {
            let guard = session.lock(name).await.unwrap();
            guard.release().await.unwrap();
        };
        latencies.record(timed(cycle).await.1);
    }
    latencies
}

/// Waits until the slot of a name is served again, and says how long that took, and the longest refusal on the way.
async fn served_again(session: &Session, name: &str) -> (Duration, Duration) {
    let began = Instant::now();
    let mut longest = Duration::ZERO;
    let again = async {
        loop {
            let (acquired, took) = timed(session.lock(name).into_future()).await;
            longest = longest.max(took);
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

/// Takes the master of some slots away, and looks at what becomes of those and the others.
async fn outage(
    site: &mut Site,
    what: &str,
    strike: impl FnOnce(&mut Site, usize),
    heal: impl FnOnce(&mut Site, usize),
) -> Done {
    let name = names_on(0).next().unwrap();
    let session = site.session(0, Duration::from_secs(10)).await;
    let others = site.session(0, Duration::from_secs(10)).await;
    let holders = Holders::start(site, 60).await;
    let load = Load::start(site).await;
    let before = measure(&others, "others before").await;
    let master = site.cluster.master_of(slot_of(&name));
    block_in_place(|| strike(site, master));
    let ((took, longest), during) = tokio::join!(
        served_again(&session, &name),
        measure(&others, "others meanwhile")
    );
    report(&before);
    report(&during);
    report(format!(
        "{what}: served again after {took:?}, longest refusal {longest:?}"
    ));
    assert!(took < REPLACED, "{took:?}");
    assert!(longest < Duration::from_secs(4), "{longest:?}");
    let ratio = during.quantile(0.5).as_secs_f64() / before.quantile(0.5).as_secs_f64();
    report(format!(
        "{what}: the others take {ratio:.2} of what they did"
    ));
    assert!(ratio < 2.0, "{ratio}");
    holders.assert_held("while the master was gone");
    block_in_place(|| {
        heal(site, master);
        site.cluster.wait_until_ok();
    });
    // Longer than their TTL, so that they must have been renewed since.
    tokio::time::sleep(Duration::from_secs(11)).await;
    holders.assert_held("when the old master came back");
    let done = load.stop().await;
    report(format!("{what}: {done}"));
    assert!(done.longest < BOUND, "{:?}", done.longest);
    site.assert_clean();
    done
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_dies_is_replaced_and_the_others_do_not_notice() {
    let _alone = alone().await;
    let mut site = Site::of_parts().await;
    // What the master had not passed on when it died is lost: it may have been a grant, or a release.
    outage(
        &mut site,
        "SIGKILL",
        |site, master| site.cluster.kill(master),
        |site, master| site.cluster.restart(master),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_hangs_is_replaced_and_the_others_do_not_notice() {
    let _alone = alone().await;
    let mut site = Site::of_parts().await;
    outage(
        &mut site,
        "SIGSTOP",
        |site, master| site.cluster.pause(master),
        |site, master| site.cluster.resume(master),
    )
    .await;
}
