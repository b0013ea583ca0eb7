//! Owner ids, tickets, bearer tokens and passwords are nowhere but where they belong: not in logs, metrics, traces, errors,
//! what operators are told, or the configuration as it is printed.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod guesses;
mod load;
mod search;
mod site;
mod trouble;

use std::time::Duration;

use leasehold_tests::report;

use self::{search::Found, site::Site};

/// Longer than anything here takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(15);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_is_secret_is_told_to_anybody_else() {
    let mut site = Site::start().await;
    tokio::join!(
        load::modes(&site, 0),
        load::modes(&site, 1),
        load::calls(&site, 0),
        load::calls(&site, 1),
        load::elections(&site),
        load::resumes(&site),
        load::deadlocks(&site),
        load::operators(&site),
        trouble::losses(&site),
        trouble::silence(&site),
        trouble::strangers(&site),
    );
    trouble::bad_starts(&site).await;
    trouble::bad_reload(&mut site).await;
    site.finish().await;

    let secrets = site.secrets.all();
    let kinds: std::collections::BTreeSet<_> = secrets.iter().map(|secret| secret.kind).collect();
    // Each kind was used, and much of it.
    for kind in [
        "owner id",
        "ticket",
        "bearer token",
        "password",
        "stored owner id",
    ] {
        assert!(kinds.contains(kind), "no {kind} was used: {kinds:?}");
    }
    let places = site.places();
    for (place, text) in &places {
        assert!(text.len() > 100, "there is nearly nothing in {place}");
    }
    let found: Vec<Found> = search::all(&secrets, &places);
    assert!(found.is_empty(), "{found:#?}");
    report(format_args!(
        "{} secrets in {} places of {} bytes: nowhere",
        secrets.len(),
        places.len(),
        places.iter().map(|(_, text)| text.len()).sum::<usize>()
    ));
}
