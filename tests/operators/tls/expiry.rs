//! Certificates that expire: the warnings for operators.

use std::{
    fs,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use leasehold_tests::{Authority, Coordinator, CoordinatorProcess, certificates::Issued, wait};

use super::site::PATIENCE;

const METRIC: &str = "leasehold_tls_certificate_expiry_timestamp_seconds";
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const SOON: &str = "a certificate in force expires soon";
const OVER: &str = "a certificate in force has expired";

/// Begins to expire that long from now.
fn over_in(authority: &Authority, left: Duration) -> (Issued, f64) {
    let until = SystemTime::now() + left;
    let issued = authority.server().valid(UNIX_EPOCH + DAY, until).issue();
    let seconds = until.duration_since(UNIX_EPOCH).unwrap().as_secs();
    (issued, seconds as f64)
}

async fn until_shown(coordinator: &CoordinatorProcess, purpose: &str, expected: f64) {
    wait::until("the metric to follow", PATIENCE, || async {
        let metrics = coordinator.metrics().await;
        let shown = metrics.of(METRIC, &[&format!("purpose=\"{purpose}\"")]);
        (shown == expected).then_some(()).ok_or((shown, expected))
    })
    .await;
}

#[tokio::test]
async fn the_earliest_of_the_chain_in_force_is_shown_and_told_when_it_is_soon() {
    let authority = Authority::new("servers");
    let (serving, _) = over_in(&authority, DAY * 400);
    let (between, expected) = over_in(&authority, DAY * 300);
    let chain = [&serving.cert, &between.cert].map(|path| fs::read_to_string(path).unwrap());
    fs::write(&serving.cert, chain.concat()).unwrap();
    let coordinator = Coordinator::process().arguments(serving.flags()).start();
    until_shown(&coordinator, "server", expected).await;
    // Nobody is shown anything on the admin port, and there is no store.
    let metrics = coordinator.metrics().await;
    assert_eq!(metrics.sum(METRIC), expected);
    assert!(!coordinator.log().contains(SOON), "{}", coordinator.log());

    let (soon, expected) = over_in(&authority, DAY * 3 + DAY / 2);
    serving.replace_with(&soon);
    until_shown(&coordinator, "server", expected).await;
    let log = coordinator.log();
    assert_eq!(log.matches(SOON).count(), 1, "{log}");
    assert!(log.contains("days=3"), "{log}");
    assert!(!log.contains(OVER), "{log}");

    let before = UNIX_EPOCH + DAY * 1000;
    let over = authority.server().valid(UNIX_EPOCH + DAY, before).issue();
    serving.replace_with(&over);
    until_shown(&coordinator, "server", 86_400_000.0).await;
    let log = coordinator.log();
    assert_eq!(log.matches(OVER).count(), 1, "{log}");

    // What can't be used is not in force.
    fs::write(&serving.cert, "rubbish").unwrap();
    let refused = "failed to take changed certificates over";
    coordinator.logged(&[refused]).await;
    until_shown(&coordinator, "server", 86_400_000.0).await;
}

#[tokio::test]
async fn the_certificate_for_the_store_is_followed_too() {
    let authority = Authority::new("clients");
    let (shown, expected) = over_in(&authority, DAY * 5);
    let [cert, key] = [&shown.cert, &shown.key].map(|path| path.display().to_string());
    // It is read whether the store is there or not.
    let coordinator = Coordinator::process()
        .store("rediss://127.0.0.1:1")
        .arguments(["--store-cert", &cert, "--store-key", &key])
        .arguments(["--store-timeout", "50ms"])
        .start_unready();
    until_shown(&coordinator, "store", expected).await;
    assert!(coordinator.log().contains(SOON), "{}", coordinator.log());
    let (renewed, expected) = over_in(&authority, DAY * 90);
    shown.replace_with(&renewed);
    until_shown(&coordinator, "store", expected).await;
    assert_eq!(coordinator.log().matches(SOON).count(), 1);
}
