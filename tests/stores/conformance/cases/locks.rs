//! Cases of one lock with one holder.

use std::time::{Duration, Instant};

use leasehold_proto::v1::{
    AcquireOutcome, AcquireRequest, AcquireResponse, GrantedLock, LostReason, ReleaseRequest,
    RenewRequest,
};
use leasehold_tests::{
    raw::{closing_for, exclusive, held_for_at_most, parse, release_request, wire},
    wait,
};
use tokio::time::timeout;

use crate::conformance::site::{LATE, Site, TTL};

/// A TTL that runs out soon.
const SHORT: Duration = Duration::from_secs(1);
/// A TTL that a heartbeat does not miss on a busy machine. What is left of a hold is renewed once a sixth of it has passed.
const RENEWED: Duration = Duration::from_secs(6);

pub(crate) async fn is_granted_once_and_tokens_rise(site: &Site) {
    let (mut one, mut other) = tokio::join!(site.session(0), site.session(1));
    let mut last = 0;
    for _ in 0..5 {
        for (holder, stranger) in [(0, 1), (1, 0)] {
            let sessions = [&mut one, &mut other];
            let lock = sessions[holder].take_one(exclusive("locks/once")).await;
            assert!(lock.fencing_token > last, "{lock:?} after {last}");
            last = lock.fencing_token;
            let id = sessions[stranger]
                .ask("locks/once", Some(Duration::ZERO))
                .await;
            let busy = sessions[stranger].not_granted(id, LATE).await;
            assert_eq!(busy.outcome(), AcquireOutcome::Busy);
            let held_by = busy.holder.unwrap();
            assert_eq!(held_by.fencing_token, last, "{held_by:?}");
            assert!(sessions[holder].release(&lock).await);
        }
    }
    one.close().await;
    other.close().await;
}

pub(crate) async fn is_released_once_and_by_its_holder_alone(site: &Site) {
    let (mut one, mut other) = tokio::join!(site.session(0), site.session(1));
    let lock = one.take_one(exclusive("locks/released")).await;
    let forged = GrantedLock {
        owner_id: vec![7; 16],
        ..lock.clone()
    };
    assert!(!other.release(&forged).await);
    assert_eq!(site.view(1, "locks/released").await.holder_count, 1);
    assert!(one.release(&lock).await);
    assert!(!one.release(&lock).await);
    let next = other.take_one(exclusive("locks/released")).await;
    assert!(!one.release(&lock).await);
    assert_eq!(site.view(0, "locks/released").await.holder_count, 1);
    assert!(other.release(&next).await);
    one.close().await;
    other.close().await;
}

async fn acquire(site: &Site, at: usize, name: &str, ttl: Duration) -> AcquireResponse {
    let request = AcquireRequest {
        name: name.to_owned(),
        ttl: wire(ttl),
        ..AcquireRequest::default()
    };
    let answer = site.unary(at).acquire(request).await;
    answer.unwrap().into_inner()
}

pub(crate) async fn without_a_stream(site: &Site) {
    let granted = acquire(site, 0, "locks/unary", TTL).await;
    assert_eq!(granted.outcome(), AcquireOutcome::Granted);
    let busy = acquire(site, 1, "locks/unary", TTL).await;
    assert_eq!(busy.outcome(), AcquireOutcome::Busy);
    let mut unary = site.unary(1);
    let renewed = unary.renew(RenewRequest {
        name: "locks/unary".to_owned(),
        owner_id: granted.owner_id.clone(),
        ttl: wire(TTL),
    });
    assert!(renewed.await.unwrap().into_inner().renewed);
    for released in [true, false] {
        let release = release_request("locks/unary", &granted.owner_id);
        let answer = site.unary(1).release(release).await.unwrap().into_inner();
        assert_eq!(answer.released, released);
    }
}

/// The answer to each attempt but the last was lost. After the release, the key is that of another acquire.
pub(crate) async fn without_a_stream_and_repeated(site: &Site) {
    let request = |wait| AcquireRequest {
        name: "locks/repeated".to_owned(),
        ttl: wire(TTL),
        wait,
        request_key: "01234567-89ab-cdef".to_owned(),
        ..AcquireRequest::default()
    };
    let mut tokens = Vec::new();
    for _ in 0..2 {
        let mut owner_id = Vec::new();
        for (at, wait) in [(0, None), (1, None), (1, wire(TTL)), (0, wire(TTL))] {
            let answer = site.unary(at).acquire(request(wait)).await;
            let answer = answer.unwrap().into_inner();
            assert_eq!(answer.outcome(), AcquireOutcome::Granted, "{answer:?}");
            tokens.push(answer.fencing_token);
            owner_id = answer.owner_id;
        }
        // The places of the last attempts are given back in the background.
        wait::until("one holder alone", LATE, || async {
            let view = site.view(1, "locks/repeated").await;
            match (view.holder_count, view.waiter_count) {
                (1, 0) => Ok(()),
                _ => Err(view),
            }
        })
        .await;
        let name = "locks/repeated".to_owned();
        let release = ReleaseRequest { name, owner_id };
        let answer = site.unary(1).release(release).await.unwrap().into_inner();
        assert!(answer.released);
    }
    assert!(tokens[..4].iter().all(|token| *token == tokens[0]));
    assert!(tokens[4] > tokens[0]);
    assert!(tokens[4..].iter().all(|token| *token == tokens[4]));
}

pub(crate) async fn runs_out_unless_renewed(site: &Site) {
    let asked = Instant::now();
    let granted = acquire(site, 0, "locks/short", SHORT).await;
    assert_eq!(granted.outcome(), AcquireOutcome::Granted);
    let next = wait::until("the lock to run out", SHORT + LATE, || async {
        let next = acquire(site, 1, "locks/short", SHORT).await;
        match next.outcome() {
            AcquireOutcome::Granted => Ok(next),
            _ => Err(next),
        }
    })
    .await;
    let after = asked.elapsed();
    assert!(after >= SHORT, "granted again after {after:?}");
    assert!(next.fencing_token > granted.fencing_token);
    let renew = RenewRequest {
        name: "locks/short".to_owned(),
        owner_id: granted.owner_id,
        ttl: wire(TTL),
    };
    let renewed = site.unary(0).renew(renew).await.unwrap().into_inner();
    assert!(!renewed.renewed);
    let release = release_request("locks/short", &next.owner_id);
    site.unary(0).release(release).await.unwrap();
}

pub(crate) async fn is_renewed_by_heartbeats(site: &Site) {
    let mut session = leasehold_tests::RawSession::open_on(site.channel(0), RENEWED).await;
    session.keep_alive(RENEWED / 20);
    let lock = session.take_one(exclusive("locks/kept")).await;
    let left = async || {
        let view = site.view(1, "locks/kept").await;
        assert_eq!(view.holder_count, 1, "{view:?}");
        assert_eq!(view.holders[0].fencing_token, lock.fencing_token);
        parse(view.holders[0].ttl)
    };
    for _ in 0..2 {
        let renewed = async {
            let mut before = left().await;
            loop {
                tokio::time::sleep(RENEWED / 60).await;
                let now = left().await;
                if now > before {
                    return;
                }
                before = now;
            }
        };
        timeout(LATE, renewed).await.unwrap();
    }
    assert!(session.release(&lock).await);
    session.close().await;
}

pub(crate) async fn has_a_value(site: &Site) {
    let mut session = site.session(0).await;
    let lock = session
        .take_one(leasehold_tests::raw::with_value(
            "first",
            exclusive("locks/value"),
        ))
        .await;
    for value in ["first", "second"] {
        if value == "second" {
            assert!(session.set_value(&lock, value).await);
        }
        let view = site.view(1, "locks/value").await;
        let holder = &view.holders[0];
        assert_eq!(holder.value, value.as_bytes());
        assert_eq!(holder.client_name, "raw");
        assert_eq!(holder.fencing_token, lock.fencing_token);
        assert!(!holder.session_id.is_empty());
    }
    assert!(session.release(&lock).await);
    assert!(!session.set_value(&lock, "late").await);
    session.close().await;
}

pub(crate) async fn stays_closed_for_its_lock_delay(site: &Site) {
    let delay = Duration::from_secs(1);
    let mut holder = site.session(0).await;
    holder
        .take_one(closing_for(delay, exclusive("locks/delay")))
        .await;
    let mut next = site.session(1).await;
    let id = next.ask("locks/delay", None).await;
    next.queued(id).await;
    let dropped = Instant::now();
    drop(holder);
    let lock = next.granted_all(id, delay + LATE).await.remove(0);
    let after = dropped.elapsed();
    assert!(after >= delay, "granted after {after:?}");
    assert!(next.release(&lock).await);
    next.close().await;
}

/// A hold ends with its bound although its client is well, and its lock-delay follows.
pub(crate) async fn ends_with_its_max_hold(site: &Site) {
    let (max_hold, delay) = (Duration::from_secs(10), Duration::from_secs(1));
    let mut holder = site.session(0).await;
    let mut next = site.session(1).await;
    let asked = Instant::now();
    let bounded = held_for_at_most(max_hold, exclusive("locks/max-hold"));
    let lock = holder.take_one(closing_for(delay, bounded)).await;
    let view = site.view(1, "locks/max-hold").await;
    assert_eq!(view.holders[0].max_hold, wire(max_hold));
    let id = next.ask("locks/max-hold", None).await;
    next.queued(id).await;

    let lost = holder.lost(max_hold + LATE).await.remove(0);
    assert!(asked.elapsed() >= max_hold);
    assert_eq!(lost.reason(), LostReason::MaxHold);
    assert_eq!(lost.owner_id, lock.owner_id);
    let lock = next.granted_all(id, delay + LATE).await.remove(0);
    let after = asked.elapsed();
    assert!(after >= max_hold + delay, "granted after {after:?}");
    assert!(next.release(&lock).await);
    holder.close().await;
    next.close().await;
}

pub(crate) async fn excludes_those_who_lock_without_a_coordinator(site: &Site) {
    let Some(taken) = site.take_as_a_stranger("locks/foreign").await else {
        return;
    };
    let mut session = site.session(0).await;
    let id = session.ask("locks/foreign", Some(Duration::ZERO)).await;
    let busy = session.not_granted(id, LATE).await;
    assert_eq!(busy.outcome(), AcquireOutcome::Busy);
    let id = session.ask("locks/foreign", None).await;
    session.queued(id).await;
    taken.give_back().await;
    let lock = session.granted_all(id, LATE).await.remove(0);
    assert!(session.release(&lock).await);
    session.close().await;
}
