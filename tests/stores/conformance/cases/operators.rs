//! Cases of operators: listing, force-release, watching.

use std::{collections::BTreeSet, time::Duration};

use leasehold_proto::v1::{
    AcquireOutcome, CheckTokenRequest, ForceReleaseRequest, ListLocksRequest, LockEventKind,
    LostReason, RequestReleaseRequest, WatchLocksRequest, campaign_response::Response as Told,
    force_release_request::Only, session_response::Response as SessionAnswer,
    watch_locks_response::Response,
};
use leasehold_tests::{
    RawCandidate,
    raw::{acquire_request, exclusive, reason, release_request, several, shared, wire},
};
use tokio::time::timeout;

use super::modes::NOT_OFFERED;
use crate::conformance::site::{LATE, Site, TTL};

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
    let forced = admin.force_release(ForceReleaseRequest { name, only: None });
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

/// Takes the hold of one token away, and no other.
pub(crate) async fn take_one_hold_away(site: &Site) {
    let name = "operators/one_hold";
    let shares = site.offers().modes;
    let of = if shares { shared } else { exclusive };
    let (mut one, mut other) = tokio::join!(site.session(0), site.session(1));
    let lock = one.take_one(of(name)).await;
    let beside = match shares {
        true => Some(other.take_one(of(name)).await),
        false => None,
    };
    let force = async |token: i64| {
        let mut admin = site.admin(1);
        let forced = admin.force_release(ForceReleaseRequest {
            name: name.to_owned(),
            only: Some(Only::FencingToken(token)),
        });
        forced.await.unwrap().into_inner()
    };
    // Of another time: nobody's.
    assert!(!force(lock.fencing_token - 1).await.released);
    let forced = force(lock.fencing_token).await;
    assert!(forced.released, "{forced:?}");
    assert!(forced.fencing_token > lock.fencing_token);
    let lost = one.lost(LATE).await;
    assert_eq!(lost[0].owner_id, lock.owner_id);
    assert_eq!(lost[0].reason(), LostReason::Forced);
    assert!(!force(lock.fencing_token).await.released);
    let view = site.view(0, name).await;
    match beside {
        Some(beside) => {
            // The end of an older hold leaves the newest token as it is.
            assert_eq!(forced.fencing_token, beside.fencing_token);
            let [holder] = &view.holders[..] else {
                panic!("{view:?}")
            };
            assert_eq!(holder.fencing_token, beside.fencing_token);
            let forced = force(beside.fencing_token).await;
            assert!(forced.fencing_token > beside.fencing_token);
            assert_eq!(other.lost(LATE).await[0].owner_id, beside.owner_id);
        }
        None => assert_eq!(view.holder_count, 0, "{view:?}"),
    }
    assert!(!one.release(&lock).await);
    one.close().await;
    other.close().await;
}

/// Ends the wait of one waiter: those behind it move up.
pub(crate) async fn end_one_wait(site: &Site) {
    let name = "operators/one_wait";
    let (mut holder, mut first, mut second) =
        tokio::join!(site.session(0), site.session(0), site.session(0));
    let lock = holder.take_one(exclusive(name)).await;
    let id = first.wait_for(exclusive(name)).await;
    let next = second.wait_for(exclusive(name)).await;
    let view = site.view(0, name).await;
    let numbers: Vec<u64> = view.waiters.iter().map(|waiter| waiter.number).collect();
    assert_eq!(numbers.len(), 2, "{view:?}");
    assert!(0 < numbers[0] && numbers[0] < numbers[1], "{view:?}");
    // At the coordinator that has it, if each has a queue of its own.
    let at = usize::from(site.offers().one_queue);
    let force = async |number: u64| {
        let mut admin = site.admin(at);
        let forced = admin.force_release(ForceReleaseRequest {
            name: name.to_owned(),
            only: Some(Only::WaiterNumber(number)),
        });
        forced.await.unwrap().into_inner()
    };
    let forced = force(numbers[0]).await;
    assert!(forced.released, "{forced:?}");
    assert_eq!(forced.fencing_token, lock.fencing_token);
    match first.outcome(id, LATE).await {
        SessionAnswer::Error(failure) => {
            assert_eq!(failure.reason, "FORCE_RELEASED", "{failure:?}");
        }
        other => panic!("the wait ended with {other:?}"),
    }
    assert!(!force(numbers[0]).await.released);
    let view = site.view(0, name).await;
    assert_eq!(view.waiter_count, 1, "{view:?}");
    assert_eq!(view.waiters[0].number, numbers[1]);
    assert!(holder.release(&lock).await);
    let taken = second.granted_all(next, LATE).await.remove(0);
    assert!(second.release(&taken).await);
    for session in [holder, first, second] {
        session.close().await;
    }
}

/// Asks the holders at both coordinators, and one of them, to release a lock. They hold it until they do.
pub(crate) async fn ask_for_a_release(site: &Site) {
    let name = "operators/asked";
    let shares = site.offers().modes;
    let of = if shares { shared } else { exclusive };
    let (mut here, mut there) = tokio::join!(site.session(0), site.session(1));
    let ask = async |fencing_token: i64, reason: &str| {
        let mut admin = site.admin(1);
        let asked = admin.request_release(RequestReleaseRequest {
            name: name.to_owned(),
            fencing_token,
            reason: reason.to_owned(),
            within: wire(Duration::from_secs(30)),
        });
        asked.await.unwrap().into_inner().asked_count
    };
    assert_eq!(ask(0, "nobody").await, 0);
    let lock = here.take_one(of(name)).await;
    assert_eq!(ask(lock.fencing_token - 1, "another").await, 0);
    let mut holders = 1;
    let mut beside = None;
    if shares {
        beside = Some(there.take_one(of(name)).await);
        holders = 2;
    }
    assert_eq!(ask(0, "a node goes away").await, holders);
    let told = here.asked(LATE).await;
    assert_eq!((&*told.name, &told.owner_id), (name, &lock.owner_id));
    assert_eq!(told.reason, "a node goes away");
    let within = Duration::try_from(told.within.unwrap()).unwrap();
    assert!(
        within <= Duration::from_secs(30) && within > Duration::from_secs(25),
        "{within:?}"
    );
    if let Some(beside) = &beside {
        assert_eq!(there.asked(LATE).await.owner_id, beside.owner_id);
    }
    // Only one of them.
    assert_eq!(ask(lock.fencing_token, "again").await, 1);
    let told = here.asked(LATE).await;
    assert_eq!((&told.owner_id, &*told.reason), (&lock.owner_id, "again"));
    assert_eq!(site.view(1, name).await.holder_count, u64::from(holders));
    assert!(here.release(&lock).await);
    if let Some(beside) = &beside {
        assert!(there.release(beside).await);
    }
    // A hold without a stream.
    let unary = acquire_request(name);
    let held = site.unary(0).acquire(unary).await.unwrap().into_inner();
    assert_eq!(held.outcome(), AcquireOutcome::Granted);
    assert_eq!(ask(0, "without a stream").await, 0);
    let release = release_request(name, &held.owner_id);
    assert!(
        site.unary(0)
            .release(release)
            .await
            .unwrap()
            .into_inner()
            .released
    );
    here.close().await;
    there.close().await;
}

/// Asks the leader, at the other coordinator, to resign: on the `Campaign` stream.
pub(crate) async fn ask_a_leader_to_resign(site: &Site) {
    let name = "operators/leader";
    let mut leader = RawCandidate::campaign(site.channel(0), name, b"", TTL).await;
    let term = leader.elected(LATE).await;
    let mut admin = site.admin(1);
    let asked = admin.request_release(RequestReleaseRequest {
        name: name.to_owned(),
        fencing_token: term.token,
        reason: "somebody else's turn".to_owned(),
        within: None,
    });
    assert_eq!(asked.await.unwrap().into_inner().asked_count, 1);
    match leader.next(LATE).await.1 {
        Ok(Some(Told::ReleaseRequested(asked))) => {
            assert_eq!(
                (&*asked.reason, asked.within),
                ("somebody else's turn", None)
            );
        }
        other => panic!("it was asked to resign, not told {other:?}"),
    }
    assert!(leader.resign().await);
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
        assert_eq!(reason(&refused), NOT_OFFERED, "{refused:?}");
        return;
    }
    let mut watched = watched.unwrap().into_inner();
    let mut next = async |limit| {
        let message = timeout(limit, watched.message()).await;
        message.unwrap().unwrap().unwrap().response.unwrap()
    };
    // The feed of a cluster begins again, a second later, whenever a master is slow to answer.
    let ready = next(LATE).await;
    assert!(matches!(ready, Response::Ready(_)), "{ready:?}");
    let mut session = site.session(0).await;
    for n in 0..6 {
        // In different slots of a cluster.
        let name = format!("operators/watch/{n}");
        let lock = session.take_one(exclusive(&name)).await;
        assert!(session.release(&lock).await);
        for kind in [LockEventKind::Granted, LockEventKind::Released] {
            match next(LATE).await {
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
