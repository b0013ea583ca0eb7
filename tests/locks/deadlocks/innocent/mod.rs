//! Waits that look like a deadlock for seconds and from every side: none is aborted.

mod handed_on;
mod nobody;
mod outsiders;
mod passing;

use std::time::Duration;

use leasehold_proto::v1::GrantedLock;
use leasehold_tests::{Site, report};

use crate::deadlocks::client::Client;

/// Time for which each scene is kept up once it is set up.
const LENGTH: Duration = Duration::from_secs(6);
/// Within this everything comes that has to; how soon is not the point here.
const LIMIT: Duration = Duration::from_secs(20);
/// A wait that is held up on purpose lasts so long: more than it takes to find a deadlock.
const WHILE: Duration = Duration::from_millis(1_800);

/// Returns the grant that a client waits for, which must come in time.
async fn granted(client: &mut Client, request_id: u64) -> Vec<GrantedLock> {
    client.granted_all(request_id, LIMIT).await
}

async fn nobody_is_accused(what: &str, site: Site) {
    let (handed_on, given_up, (), (), (), ()) = tokio::join!(
        handed_on::rings(&site),
        passing::waits_come_and_go(&site),
        outsiders::another_actor_of_the_session(&site),
        outsiders::another_holder_of_a_permit(&site),
        outsiders::long_work(&site),
        nobody::in_circles(&site),
    );
    report(format!(
        "{what}: {handed_on} hand-offs and {given_up} waits that were given up in what looks like circles"
    ));
    assert_eq!(site.sum("leasehold_deadlocks_total").await, 0.0);
    site.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_accused_who_may_still_go_on() {
    let (two, one, memory) = tokio::join!(Site::redis(2), Site::redis(1), Site::memory());
    tokio::join!(
        nobody_is_accused("over two coordinators", two),
        nobody_is_accused("at one coordinator", one),
        nobody_is_accused("in memory", memory),
    );
}
