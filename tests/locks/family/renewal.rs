//! Holds that outlive their TTL by renewals, in every mode, while other clients try to get them.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use leasehold_proto::v1::session_response::Response;
use leasehold_tests::{
    raw::{PROMPT, for_at_most, semaphore, shared},
    report,
};

use crate::family::{
    site::{Site, everywhere},
    want::{Pair, Want, pairs},
};

const TTL: Duration = Duration::from_secs(2);
/// Three times that, and the rest of a heartbeat.
const LENGTH: Duration = Duration::from_millis(6_200);
const HEARTBEAT: Duration = Duration::from_millis(150);
const HAMMERS: usize = 4;

#[tokio::test(flavor = "multi_thread")]
async fn holds_outlive_three_ttls_under_load_in_every_mode() {
    everywhere(async |site| {
        let until = Instant::now() + LENGTH;
        let cases = pairs("renewed");
        let held = join_all(cases.iter().map(|pair| held(site, pair, until)));
        let hammers = (0..HAMMERS).map(|at| hammer(site, at, &cases, until));
        let (_, cycles) = tokio::join!(held, join_all(hammers));
        let cycles: u64 = cycles.into_iter().sum();
        report(format!("held for {LENGTH:?} beside {cycles} acquires"));
        assert!(cycles > 100, "{cycles}");
    })
    .await;
}

async fn held(site: &Site, pair: &Pair, until: Instant) {
    let mut session = site.session_of(0, TTL).await;
    // The others are at it already.
    let id = session.ask_for(pair.held.acquire()).await;
    let held = session.granted_all(id, PROMPT).await;
    let mut waiter = site.session(1).await;
    let waiting = waiter.wait_for(pair.wanted.acquire()).await;
    // From here on it sends its heartbeats here.
    session.fall_silent();
    let mut good_until = session.heartbeat().await;
    while Instant::now() < until {
        let next = session.heartbeat().await;
        let now = Instant::now();
        assert!(now < good_until, "{} was not good for a time", pair.what);
        good_until = next;
        tokio::time::sleep(HEARTBEAT).await;
    }
    let news = session.unread_unasked();
    assert!(news.is_empty(), "{}: {news:?}", pair.what);
    for lock in &held {
        let view = site.view(1, &lock.name).await;
        let tokens: Vec<_> = view.holders.iter().map(|held| held.fencing_token).collect();
        assert!(tokens.contains(&lock.fencing_token), "{view:?}");
        assert!(session.release(lock).await, "{}", pair.what);
    }
    waiter.granted_all(waiting, PROMPT).await;
    session.close().await;
    waiter.close().await;
}

/// Asks for what is held, in vain; for what can be held beside it, though not while somebody waits for more; and for names
/// of its own.
async fn hammer(site: &Site, at: usize, cases: &[Pair], until: Instant) -> u64 {
    let mut session = site.session(at).await;
    let mut cycles = 0;
    let own = Want::All((0..3).map(|name| format!("renewed/{at}/{name}")).collect());
    let beside = [shared("renewed/read"), semaphore("renewed/permits", 1, 3)];
    while Instant::now() < until {
        let wanted = cases.iter().map(|pair| pair.wanted.acquire());
        let mut asked = Vec::new();
        for acquire in wanted.chain(beside.clone()).chain([own.acquire()]) {
            let wait = Duration::from_millis(cycles % 3);
            asked.push(session.ask_for(for_at_most(wait, acquire)).await);
            cycles += 1;
        }
        for id in asked {
            match session.outcome(id, PROMPT).await {
                Response::Granted(granted) => {
                    for lock in &granted.locks {
                        assert!(session.release(lock).await);
                    }
                }
                Response::NotGranted(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }
    session.close().await;
    cycles
}
