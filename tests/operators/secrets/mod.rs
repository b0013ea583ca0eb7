//! Owner ids, tickets, bearer tokens, JWTs, private keys and passwords are only where they belong: not in logs, metrics,
//! traces, errors, the output for operators, or the configuration as it is printed; nor in the output and logs of the client.

mod callers;
mod credentials;
mod guarded;
mod library;
mod load;
mod search;
mod site;
mod trouble;
mod websockets;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use leasehold_tests::report;

use self::{
    guarded::Guarded,
    search::Found,
    site::{Secrets, Site},
};

/// Longer than anything here takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(20);

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

    let kinds = [
        "owner id",
        "ticket",
        "bearer token",
        "password",
        "stored owner id",
    ];
    nowhere(&site.secrets, &kinds, &site.places());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credentials_are_shown_to_nobody_else() {
    let site = Arc::new(Guarded::start().await);
    tokio::join!(
        callers::known(&site, 0),
        callers::known(&site, 1),
        callers::refused(&site, 0),
        callers::refused(&site, 1),
        websockets::callers(&site, 0),
        websockets::callers(&site, 1),
        library::clients(&site),
        library::command_line(&site, 0),
        library::command_line(&site, 1),
    );
    callers::ending(&site).await;
    callers::bad_files(&site).await;
    let mut site = Arc::into_inner(site).unwrap();
    site.finish().await;
    let kinds = [
        "bearer token in force",
        "hash of a token",
        "bearer token",
        "JWT in use",
        "JWT that is refused",
        "signature of a JWT",
        "private key",
        "private key's number",
        "line of a private key",
    ];
    nowhere(&site.secrets, &kinds, &site.places());
}

/// Asserts that none of the secrets, of which there are some of each kind, is in any of the places.
fn nowhere(secrets: &Secrets, used: &[&str], places: &[(String, Vec<u8>)]) {
    let secrets = secrets.all();
    let kinds: BTreeSet<_> = secrets.iter().map(|secret| secret.kind).collect();
    for kind in used {
        assert!(kinds.contains(kind), "no {kind} was used: {kinds:?}");
    }
    for (place, text) in places {
        assert!(text.len() > 100, "there is nearly nothing in {place}");
    }
    let found: Vec<Found> = search::all(&secrets, places);
    assert!(found.is_empty(), "{found:#?}");
    report(format_args!(
        "{} secrets in {} places of {} bytes: nowhere",
        secrets.len(),
        places.len(),
        places.iter().map(|(_, text)| text.len()).sum::<usize>()
    ));
}
