//! One of two replicas is stopped with SIGSTOP.

use std::time::{Duration, Instant};

use leasehold_proto::v1::{AcquireOutcome, LostReason};
use leasehold_tests::{
    alone::alone,
    raw::{PROMPT, exclusive},
    report, wait,
};

use crate::replicas::site::{REPLICA_TIMEOUT, Site, TTL, as_fast, give_back, heartbeats, take};

/// Tolerated delay of any event on a busy machine.
const LATE: Duration = Duration::from_secs(1);
/// So many of everything that is measured.
const NUMBER: usize = 40;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_one_acknowledgement_required_no_client_notices() {
    let _alone = alone().await;
    let site = Site::start(1);
    let mut session = site.session(0).await;
    let locks = take(&mut session, "before", NUMBER).await;
    let kept = session.take_one(exclusive("kept")).await;
    let before = give_back("releases, both replicas", &mut session, &locks).await;
    site.stop_a_replica();
    let started = Instant::now();
    let locks = take(&mut session, "after", NUMBER).await;
    report(format_args!(
        "{NUMBER} grants with one of two replicas stopped: {:?}",
        started.elapsed()
    ));
    let after = give_back("releases, one replica stopped", &mut session, &locks).await;
    as_fast(&before, &after);
    // Longer than a lease without a renewal that counts would last.
    let until = Instant::now() + TTL + LATE;
    while Instant::now() < until {
        let good_until = session.heartbeat().await;
        assert!(good_until > Instant::now());
        tokio::time::sleep(TTL / 6).await;
    }
    assert!(session.unread_unasked().is_empty());
    assert!(session.release(&kept).await);
    site.let_it_go_on();
    session.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_all_acknowledgements_required_nothing_is_granted_and_nothing_else_is_slower() {
    let _alone = alone().await;
    let site = Site::start(2);
    let mut session = site.session(0).await;
    let mut other = site.session(1).await;
    let [first, second] = [
        take(&mut session, "first", NUMBER).await,
        take(&mut session, "second", NUMBER).await,
    ];
    session.take_one(exclusive("kept")).await;
    let handed = other.take_one(exclusive("handed")).await;
    let before = give_back("releases, both replicas", &mut session, &first).await;
    let beats_before = heartbeats("heartbeats, both replicas", &mut session, NUMBER).await;

    // A heartbeat renews what was renewed a sixth of the TTL ago; what replicas say to that is told after it was answered. So
    // the next one has nothing to renew, and this deadline is the last that replicas have.
    tokio::time::sleep(TTL / 6).await;
    session.heartbeat().await;
    tokio::time::sleep(REPLICA_TIMEOUT).await;
    session.heartbeat().await;
    let good_until = session.good_until().unwrap();
    site.stop_a_replica();
    let stopped = Instant::now();
    let after = give_back("releases, one stopped", &mut session, &second).await;
    as_fast(&before, &after);

    // An acquire is refused within the time-out, and leaves nothing.
    let asked = Instant::now();
    let id = other.ask("refused", Some(Duration::ZERO)).await;
    let refusal = other.refusal(id, PROMPT).await;
    let refused_after = asked.elapsed();
    assert_eq!(refusal.reason, "NOT_REPLICATED", "{refusal:?}");
    assert!(
        refused_after <= REPLICA_TIMEOUT + LATE / 4,
        "{refused_after:?}"
    );
    wait::until("the grant to be taken back", LATE, || async {
        site.left_at_the_master("refused").await.map_or(Ok(()), Err)
    })
    .await;

    // So is a waiter to whom a lock is handed on, here and at the other coordinator. Whoever releases does not wait for it.
    let id = session.wait_for(exclusive("handed")).await;
    let released = Instant::now();
    assert!(other.release(&handed).await);
    let release_took = released.elapsed();
    assert!(release_took < REPLICA_TIMEOUT, "{release_took:?}");
    let refusal = session.refusal(id, PROMPT).await;
    let handed_after = released.elapsed();
    assert_eq!(refusal.reason, "NOT_REPLICATED", "{refusal:?}");
    report(format_args!(
        "with one of two replicas stopped, an acquire is refused after {refused_after:?}, a hand-off after {handed_after:?} \
         (time-out {REPLICA_TIMEOUT:?}), a release with a hand-off answered after {release_took:?}"
    ));

    other.close().await;

    // Heartbeats are answered as before, and reach the master, but what they promise does not grow.
    tokio::time::sleep((TTL / 3).saturating_sub(stopped.elapsed())).await;
    let beats_after = heartbeats("heartbeats, one stopped", &mut session, NUMBER).await;
    as_fast(&beats_before, &beats_after);
    wait::until("a renewal to reach the master", LATE, || async {
        match site.left_at_the_master("kept").await {
            Some(left) if Instant::now() + left > good_until + LATE => Ok(()),
            left => Err(left),
        }
    })
    .await;
    let told = session.good_until().unwrap();
    let slack = TTL / 100 + Duration::from_millis(50);
    assert!(told <= good_until + slack, "a promise without replicas");

    // They say lost when that runs out, not before.
    session.keep_alive(Duration::from_millis(200));
    let lost = session.lost(TTL + LATE).await;
    let lost_at = Instant::now();
    assert_eq!(lost.len(), 1, "{lost:?}");
    assert_eq!(
        (&*lost[0].name, lost[0].reason()),
        ("kept", LostReason::Expired)
    );
    assert!(
        lost_at >= good_until,
        "{:?} too early",
        good_until - lost_at
    );
    let late = lost_at - good_until;
    report(format_args!(
        "told lost {late:?} after the last acknowledged deadline"
    ));
    assert!(late <= LATE, "{late:?}");

    site.let_it_go_on();
    let lock = wait::until("grants again", LATE * 5, || async {
        let mut session = site.session(1).await;
        let id = session.ask("again", Some(Duration::ZERO)).await;
        use leasehold_proto::v1::session_response::Response;
        match session.outcome(id, PROMPT).await {
            Response::Granted(granted) => Ok(granted),
            Response::NotGranted(busy) if busy.outcome() == AcquireOutcome::Busy => {
                Err("busy".to_owned())
            }
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    assert_eq!(lock.locks.len(), 1);
    session.close().await;
}
