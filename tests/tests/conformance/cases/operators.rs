//! Cases of operators: listing, force-release, watching.

use std::collections::BTreeSet;

use leasehold_proto::v1::{
    CheckTokenRequest, ForceReleaseRequest, ListLocksRequest, LockEventKind, LostReason,
    WatchLocksRequest, watch_locks_response::Response,
};
use leasehold_tests::raw::{PROMPT, exclusive, several};
use tokio::time::timeout;
use tonic_types::StatusExt;

use super::modes::NOT_OFFERED;
use crate::site::{LATE, Site};

pub(crate) async fn list_every_lock(site: &Site) {
    let names: BTreeSet<String> = (0..40).map(|n| format!("operators/list/{n:02}")).collect();
    let mut session = site.session(0).await;
    session
        .take(several(names.iter().map(String::as_str)))
        .await;
    for page_size in [3, 1000] {
        let mut listed = BTreeSet::new();
        let mut page_token = String::new();
        loop {
            let mut admin = site.admin(1);
            let page = admin.list_locks(ListLocksRequest {
                prefix: "operators/list/".to_owned(),
                page_size,
                page_token,
            });
            let page = page.await.unwrap().into_inner();
            for lock in page.locks {
                assert_eq!(lock.holder_count, 1, "{lock:?}");
                listed.insert(lock.name);
            }
            page_token = page.next_page_token;
            if page_token.is_empty() {
                break;
            }
        }
        assert_eq!(listed, names);
    }
    session.close().await;
}

pub(crate) async fn take_a_lock_away(site: &Site) {
    let (mut holder, mut next) = tokio::join!(site.session(0), site.session(1));
    let lock = holder.take_one(exclusive("operators/forced")).await;
    let id = next.wait_for(exclusive("operators/forced")).await;
    let name = "operators/forced".to_owned();
    let mut admin = site.admin(1);
    let forced = admin.force_release(ForceReleaseRequest { name });
    let forced = forced.await.unwrap().into_inner();
    assert!(forced.released, "{forced:?}");
    assert!(forced.fencing_token > lock.fencing_token);
    let lost = holder.lost(LATE).await;
    assert_eq!(lost[0].owner_id, lock.owner_id);
    assert_eq!(lost[0].reason(), LostReason::Forced);
    let taken = next.granted_all(id, LATE).await.remove(0);
    assert!(taken.fencing_token > lock.fencing_token);
    assert!(!holder.release(&lock).await);
    assert!(next.release(&taken).await);
    holder.close().await;
    next.close().await;
}

pub(crate) async fn check_tokens(site: &Site) {
    let mut session = site.session(0).await;
    let mut last = None;
    for _ in 0..2 {
        let lock = session.take_one(exclusive("operators/token")).await;
        for (token, current) in [(Some(lock.fencing_token), true), (last, false)] {
            let Some(fencing_token) = token else { continue };
            let mut admin = site.admin(1);
            let check = admin.check_token(CheckTokenRequest {
                name: "operators/token".to_owned(),
                fencing_token,
            });
            let checked = check.await.unwrap().into_inner();
            assert_eq!(checked.current, current, "{checked:?}");
        }
        last = Some(lock.fencing_token);
        assert!(session.release(&lock).await);
    }
    session.close().await;
}

/// Watches at the other coordinator.
pub(crate) async fn watch(site: &Site) {
    let prefix = "operators/watch/".to_owned();
    let watched = site
        .admin(1)
        .watch_locks(WatchLocksRequest { prefix })
        .await;
    if !site.offers().watching {
        let refused = watched.map(|_| ()).unwrap_err();
        let reason = refused.get_details_error_info().unwrap().reason;
        assert_eq!(reason, NOT_OFFERED, "{refused:?}");
        return;
    }
    let mut watched = watched.unwrap().into_inner();
    let mut next = async |limit| {
        let message = timeout(limit, watched.message()).await;
        message.unwrap().unwrap().unwrap().response.unwrap()
    };
    // The feed of a cluster begins again, a second later, whenever a master is slow to answer.
    let ready = next(4 * PROMPT).await;
    assert!(matches!(ready, Response::Ready(_)), "{ready:?}");
    let mut session = site.session(0).await;
    for n in 0..6 {
        // In different slots of a cluster.
        let name = format!("operators/watch/{n}");
        let lock = session.take_one(exclusive(&name)).await;
        assert!(session.release(&lock).await);
        for kind in [LockEventKind::Granted, LockEventKind::Released] {
            match next(PROMPT).await {
                Response::Event(event) => {
                    assert_eq!(event.kind(), kind, "{event:?}");
                    assert_eq!(event.name, name);
                    assert_eq!(event.fencing_token, lock.fencing_token);
                }
                other => panic!("no event: {other:?}"),
            }
        }
    }
    session.close().await;
}
