//! A client's process is killed, while it waits and while it holds, in every mode.

use std::time::Instant;

use futures_util::future::join_all;
use leasehold_tests::{
    Site, Worker,
    raw::PROMPT,
    report,
    site::{TTL, everywhere, on_redis},
};

use crate::LATE;
use crate::family::want::{Pair, Want, pairs};

/// Returns a worker process at a coordinator.
async fn worker(site: &Site, at: usize) -> Worker {
    let mut worker = Worker::start(&site.endpoint(at), TTL * 3);
    worker.ready().await;
    worker
}

/// Does the same, holding something.
async fn worker_with(site: &Site, at: usize, want: &Want) -> Worker {
    let mut worker = worker(site, at).await;
    worker.order(&want.order());
    for name in want.names() {
        worker.granted(name).await;
    }
    worker
}

#[tokio::test(flavor = "multi_thread")]
async fn the_death_of_a_waiter_and_of_a_holder_lets_the_next_in_in_every_mode() {
    everywhere(async |site| {
        let cases = pairs("killed");
        join_all(cases.iter().map(|pair| killed(site, pair))).await;
    })
    .await;
}

async fn killed(site: &Site, pair: &Pair) {
    let mut holder = worker_with(site, 0, &pair.held).await;
    let mut waiter = worker(site, 1).await;
    waiter.order(&pair.wanted.order());
    let view = site
        .seen(0, &pair.contended, "one waiter", |view| {
            view.waiter_count == 1
        })
        .await;
    let stays = view.holders[0].fencing_token;
    let mut next = site.session(0).await;
    let id = next.ask_for(pair.wanted.acquire()).await;
    next.queued(id).await;

    waiter.child().kill();
    let died = Instant::now();
    let view = site
        .seen(1, &pair.contended, "one waiter again", |view| {
            view.waiter_count == 1 && view.waiters[0].client_name == "raw"
        })
        .await;
    assert!(died.elapsed() <= LATE, "{} {:?}", pair.what, died.elapsed());
    assert_eq!(view.holders[0].fencing_token, stays, "{}", pair.what);

    holder.child().kill();
    let died = Instant::now();
    let granted = next.granted_all(id, PROMPT).await;
    let took = died.elapsed();
    report(format!(
        "{}: granted {took:?} after SIGKILL of the holder",
        pair.what
    ));
    assert!(took <= LATE, "{} {took:?}", pair.what);
    assert_eq!(granted.len(), pair.wanted.names().len());
    for name in pair.held.names() {
        if pair.wanted.names().contains(name) {
            let view = site.view(1, name).await;
            assert_eq!(view.holder_count, 1, "{view:?}");
            assert!(view.fencing_token > stays, "{view:?}");
        } else {
            site.free(name).await;
        }
    }
    next.close().await;
}

/// A lock taken on the way is free at once, even before the rest could have been granted.
#[tokio::test(flavor = "multi_thread")]
async fn the_death_of_who_waits_for_the_second_name_frees_the_first_at_once() {
    everywhere(async |site| {
        let mut others = site.session(0).await;
        let second = Want::Exclusive("second".to_owned());
        others.take(second.acquire()).await;
        let mut worker = worker(site, 1).await;
        worker.order("closing 30000");
        worker.order(&Want::All(vec!["second".to_owned(), "first".to_owned()]).order());
        site.seen(0, "second", "a waiter", |view| view.waiter_count == 1)
            .await;
        assert_eq!(site.view(0, "first").await.holder_count, 1);
        let first = Want::Exclusive("first".to_owned());
        let id = others.wait_for(first.acquire()).await;
        worker.child().kill();
        let died = Instant::now();
        others.granted_all(id, PROMPT).await;
        let took = died.elapsed();
        report(format!("the first name was free {took:?} after SIGKILL"));
        assert!(took <= LATE, "{took:?}");
        site.seen(0, "second", "no waiter", |view| view.waiter_count == 0)
            .await;
    })
    .await;
}

/// A holder among several that hold together: what it took alone comes free.
#[tokio::test(flavor = "multi_thread")]
async fn the_death_of_one_of_many_holders_takes_nothing_from_the_others() {
    on_redis(async |site| {
        let read = Want::Shared("many/read".to_owned());
        let (small, big) = (
            Want::Permits("many/permits".to_owned(), 1, 4),
            Want::Permits("many/permits".to_owned(), 2, 4),
        );
        let mut dies = worker_with(site, 0, &read).await;
        dies.order(&big.order());
        dies.granted("many/permits").await;
        let mut lives = worker_with(site, 1, &read).await;
        lives.order(&small.order());
        lives.granted("many/permits").await;
        let mut writer = site.session(0).await;
        let written = writer
            .wait_for(Want::Exclusive("many/read".to_owned()).acquire())
            .await;
        let permits = writer.wait_for(big.acquire()).await;

        dies.child().kill();
        writer.granted_all(permits, PROMPT).await;
        let view = site
            .seen(1, "many/read", "one holder", |view| view.holder_count == 1)
            .await;
        assert_eq!(view.waiter_count, 1, "{view:?}");
        let view = site.view(1, "many/permits").await;
        assert_eq!((view.holder_count, view.permits_taken), (2, 3), "{view:?}");
        for name in ["many/read", "many/permits"] {
            lives.order(&format!("held {name}"));
            lives.heard(&format!("held {name} true"), PROMPT).await;
        }
        lives.child().kill();
        writer.granted_all(written, PROMPT).await;
        let view = site.view(0, "many/permits").await;
        assert!(view.holder_count <= 2, "{view:?}");
    })
    .await;
}
