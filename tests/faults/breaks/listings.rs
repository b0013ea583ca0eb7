//! Many large listings at once: the coordinator makes a few looks at a time, and abandoned listings leave nothing behind.

use std::{collections::HashSet, time::Duration};

use leasehold_proto::v1::{ListLocksRequest, admin_service_client::AdminServiceClient};
use leasehold_tests::{RawSession, Site, raw::PROMPT, report};
use tokio::task::JoinSet;
use tonic::transport::Channel;

/// Longer than a busy machine takes for all of it.
const TTL: Duration = Duration::from_secs(1800);
const LOCKS: usize = 400;
const LISTINGS: usize = 20;
/// Most commands on their way to the store: four looks, the scans of the caller's four turns, and what else there is.
const LOOKS: f64 = 12.0;

/// Returns all locks, page by page.
async fn list(mut admin: AdminServiceClient<Channel>) -> usize {
    let mut names = HashSet::new();
    let mut page_token = String::new();
    loop {
        let request = ListLocksRequest {
            prefix: "listed/".to_owned(),
            page_token,
            ..ListLocksRequest::default()
        };
        let page = admin.list_locks(request).await.unwrap().into_inner();
        names.extend(page.locks.into_iter().map(|lock| lock.name));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return names.len();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_listings_have_few_commands_on_their_way() {
    let site = Site::redis(1).await;
    // None of them has to be renewed meanwhile.
    let mut session = RawSession::open(&site.endpoint(0), TTL).await;
    let mut asked = Vec::new();
    for number in 0..LOCKS {
        asked.push(session.ask(&format!("listed/{number}"), None).await);
    }
    for request_id in asked {
        session.granted(request_id, PROMPT).await;
    }

    let admin = site.admin(0);
    let mut listings: JoinSet<usize> = (0..LISTINGS).map(|_| list(admin.clone())).collect();
    let mut given_up: JoinSet<usize> = (0..LISTINGS).map(|_| list(admin.clone())).collect();
    let (mut samples, mut most) = (0, 0.0_f64);
    while !listings.is_empty() {
        let metrics = site.at(0).metrics().await;
        let on_their_way =
            metrics.sum("leasehold_store_queue") + metrics.sum("leasehold_store_in_flight");
        most = most.max(on_their_way);
        samples += 1;
        if samples == 5 {
            given_up.abort_all();
        }
        while let Some(listed) = listings.try_join_next() {
            assert_eq!(listed.unwrap(), LOCKS);
        }
    }
    report(format!(
        "{LISTINGS} listings: {most} commands on their way at most, in {samples} samples"
    ));
    assert!(samples > 5, "they were over before anybody looked");
    assert!((1.0..=LOOKS).contains(&most), "{most} commands at once");
    while given_up.join_next().await.is_some() {}
    let again = tokio::time::timeout(PROMPT, list(admin)).await;
    assert_eq!(again.expect("nothing was left behind"), LOCKS);
}
