//! Basic operations on a cluster, as on one server.

use std::{collections::BTreeSet, time::Duration};

use leasehold_client::{FencingToken, LockEventKind, LockWatchEvent};
use leasehold_proto::v1::{ListLocksRequest, admin_service_client::AdminServiceClient};
use leasehold_tests::{report, wait};
use tokio::time::timeout;

use crate::cluster::site::{LIMIT, Site, a_name_on_each, names_on, timed};

#[tokio::test]
async fn a_cluster_does_all_that_one_server_does() {
    let site = Site::start().await;
    a_waiter_of_another_coordinator_is_woken_by_its_slot(&site).await;
    several_names_of_several_nodes_are_taken_together(&site).await;
    locks_are_listed_page_by_page_over_all_nodes(&site).await;
    a_watcher_is_told_of_locks_on_every_node_once(&site).await;
    a_holder_learns_at_once_that_another_coordinator_took_its_lock_away(&site).await;
    site.assert_clean();
}

/// Below what a refresh takes that finds a grant of which nobody was told.
pub(crate) const WOKEN: Duration = Duration::from_millis(250);

/// Returns the channels of slots that coordinators listen to on a node.
pub(crate) fn slot_channels(site: &Site, node: usize) -> Vec<String> {
    redis::cmd("PUBSUB")
        .arg("SHARDCHANNELS")
        .query(&mut site.cluster.node(node).connection())
        .unwrap()
}

async fn a_waiter_of_another_coordinator_is_woken_by_its_slot(site: &Site) {
    let (one, other) = (site.client(0).await, site.client(1).await);
    let mut waits = Vec::new();
    for (master, name) in a_name_on_each().iter().enumerate() {
        for _ in 0..5 {
            let guard = one.lock(&**name).await.unwrap();
            let waiter = tokio::spawn(other.lock(&**name).into_future());
            wait::until("the waiter to be listened for", LIMIT, async || {
                let channels = slot_channels(site, master);
                channels
                    .iter()
                    .any(|it| it.contains(":wake:"))
                    .then_some(())
                    .ok_or(channels)
            })
            .await;
            let token = guard.fencing_token();
            let (granted, took) = timed(async {
                guard.release().await.unwrap();
                timeout(LIMIT, waiter).await.unwrap().unwrap().unwrap()
            })
            .await;
            assert!(granted.fencing_token() > token);
            granted.release().await.unwrap();
            waits.push(took);
        }
    }
    waits.sort_unstable();
    report(format!("hand-offs to another coordinator: {waits:?}"));
    assert!(waits[waits.len() / 2] < WOKEN, "{waits:?}");
    // Nobody waits any more.
    wait::until("the slots to be forgotten", LIMIT, async || {
        let channels: Vec<String> = (0..3).flat_map(|node| slot_channels(site, node)).collect();
        if channels.is_empty() {
            Ok(())
        } else {
            Err(channels)
        }
    })
    .await;
}

async fn several_names_of_several_nodes_are_taken_together(site: &Site) {
    let (one, other) = (site.client(0).await, site.client(1).await);
    let names: Vec<String> = (0..3).flat_map(|master| names_on(master).take(3)).collect();
    let guards = one
        .lock_all(names.iter().map(String::as_str))
        .await
        .unwrap();
    for name in &names {
        assert!(other.lock(&**name).try_acquire().await.unwrap().is_none());
    }
    let waiting = other
        .lock_all(names.iter().rev().map(String::as_str))
        .into_future();
    let waiting = tokio::spawn(waiting);
    guards.release().await.unwrap();
    let guards = timeout(LIMIT, waiting).await.unwrap().unwrap().unwrap();
    assert!(guards.is_held());
    guards.release().await.unwrap();
}

async fn locks_are_listed_page_by_page_over_all_nodes(site: &Site) {
    let client = site.client(0).await;
    let names: BTreeSet<String> = (0..150).map(|number| format!("list/{number}")).collect();
    let mut guards = Vec::new();
    for name in &names {
        guards.push(client.lock(&**name).await.unwrap());
    }
    guards.push(client.lock("other").await.unwrap());
    let mut admin = AdminServiceClient::new(site.coordinators[1].channel().await);
    let mut page = async |page_token: String| {
        let request = ListLocksRequest {
            prefix: "list/".into(),
            page_size: 20,
            page_token,
        };
        admin
            .list_locks(request)
            .await
            .map(tonic::Response::into_inner)
    };
    let (mut found, mut token, mut pages) = (Vec::new(), String::new(), 0);
    let mut tokens = Vec::new();
    loop {
        let listed = page(token).await.unwrap();
        found.extend(listed.locks.into_iter().map(|lock| lock.name));
        token = listed.next_page_token;
        pages += 1;
        assert!(pages < 200);
        if token.is_empty() {
            break;
        }
        tokens.push(token.clone());
    }
    assert!(pages > 3, "{pages}");
    assert_eq!(found.iter().cloned().collect::<BTreeSet<_>>(), names);
    // A node that is gone is passed over; what is none is refused.
    page("0.0.0.1:1:7".into()).await.unwrap();
    let after_all = page("9.9.9.9:1:7".into()).await.unwrap();
    assert!(after_all.locks.is_empty() && after_all.next_page_token.is_empty());
    page("7".into()).await.unwrap_err();
    report(format!(
        "{} names in {pages} pages, as in {:?}",
        names.len(),
        tokens.last()
    ));
}

async fn a_watcher_is_told_of_locks_on_every_node_once(site: &Site) {
    let client = site.client(0).await;
    let names = a_name_on_each();
    let mut watcher = site.client(1).await.admin().watch_locks("on ");
    let mut next = async || {
        timeout(LIMIT, watcher.next())
            .await
            .unwrap()
            .unwrap()
            .unwrap()
    };
    loop {
        match next().await {
            LockWatchEvent::Ready => break,
            LockWatchEvent::Gap(_) => {}
            other => panic!("{other:?}"),
        }
    }
    let mut expected = Vec::new();
    for _ in 0..5 {
        for name in &names {
            let guard = client.lock(&**name).await.unwrap();
            let token = guard.fencing_token().get();
            guard.release().await.unwrap();
            expected.extend([(name.clone(), token, true), (name.clone(), token, false)]);
        }
    }
    let mut told = Vec::new();
    while told.len() < expected.len() {
        match next().await {
            LockWatchEvent::Event(event) => {
                let token = event.fencing_token.map_or(0, FencingToken::get);
                told.push((event.name, token, event.kind == LockEventKind::Granted));
            }
            other => panic!("{other:?}"),
        }
    }
    // In order for each lock, as each waited for the answer before.
    for name in &names {
        let of = |all: &[(String, i64, bool)]| -> Vec<_> {
            all.iter().filter(|it| it.0 == *name).cloned().collect()
        };
        assert_eq!(of(&told), of(&expected));
    }
}

async fn a_holder_learns_at_once_that_another_coordinator_took_its_lock_away(site: &Site) {
    let admin = site.client(1).await.admin();
    for name in a_name_on_each() {
        let session = site.session(0, Duration::from_secs(60)).await;
        let guard = session.lock(&*name).await.unwrap();
        let lost = guard.lost();
        admin.force_release(&name).await.unwrap();
        let (_, took) = timed(timeout(LIMIT, lost)).await;
        report(format!("lost after {took:?}"));
        assert!(took < Duration::from_secs(2), "{took:?}");
    }
}
