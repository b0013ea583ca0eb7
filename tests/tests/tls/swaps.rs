//! Files that change while the coordinator runs.

use leasehold_tests::{Authority, wait};

use crate::site::{PATIENCE, Site, ask, chain, list};

#[tokio::test]
async fn new_connections_see_a_certificate_that_was_swapped() {
    let site = Site::open().await;
    let endpoint = site.coordinator.endpoint();
    let channel = site.servers.connect(&endpoint, None).await.unwrap();
    let successors = Authority::new("successors");
    site.server.replace_with(&successors.server().issue());
    wait::until("the new certificate to be served", PATIENCE, || async {
        ask(&successors, &endpoint, None).await
    })
    .await;
    let old = chain(&site.ask(None).await.unwrap_err());
    assert!(old.contains("UnknownIssuer"), "{old}");
    // What was open goes on.
    list(channel).await.unwrap();
}
