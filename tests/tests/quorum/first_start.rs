//! Which masters have a vote.

use std::time::Duration;

use leasehold_core::command::Op;
use leasehold_store::{LockStore, Options, Status, StoreError, open};
use leasehold_tests::{Masters, RedisServer, wait};

use crate::site::{MAX_TTL, PROMPT, acquire, down, options, run, store, take, try_run, up};

#[tokio::test]
async fn masters_that_were_started_lately_have_no_vote_at_first() {
    let masters = Masters::start(3);
    let patient = Options {
        quorum_bootstrap: false,
        meter: leasehold_store::measure::Meter::default(),
        ..options(&masters, "here")
    };
    let (store, _) = open(patient).unwrap();
    let reason = down_for(&store, "may have come back without what it knew").await;
    assert!(reason.contains("0 of 3 masters have a vote"), "{reason}");
    let refused = try_run(&store, Op::Acquire(acquire(1))).await;
    let Err(StoreError::Unavailable { reason }) = refused else {
        panic!("not unavailable: {refused:?}")
    };
    assert!(reason.contains("has a vote again in"), "{reason}");
    // They have one when nothing that they could have forgotten stands any more.
    up(&store).await;
    take(&store, acquire(2)).await;
    // Who says now that they are started for the first time is wrong.
    let (wrong, _) = open(options(&masters, "wrong")).unwrap();
    let reason = down_for(&wrong, "--quorum-bootstrap").await;
    assert!(reason.contains("has served locks before"), "{reason}");
    let refused = try_run(&wrong, Op::Acquire(acquire(3))).await;
    let Err(StoreError::Unavailable { reason }) = refused else {
        panic!("not unavailable: {refused:?}")
    };
    assert!(reason.contains("start without it"), "{reason}");
}

/// Waits until the store is down for a reason that says this.
async fn down_for(store: &leasehold_store::Store, says: &str) -> String {
    wait::until("the store to say why it is down", PROMPT, || async {
        match &*store.status().borrow() {
            Status::Down { reason, .. } if reason.contains(says) => Ok(reason.to_string()),
            other => Err(format!("{other:?}")),
        }
    })
    .await
}

#[tokio::test]
async fn a_master_that_comes_back_empty_has_no_vote_for_a_while() {
    let mut masters = Masters::start(3);
    let first = store(&masters, "here").await;
    take(&first, acquire(1)).await;
    masters.restart_empty(0);
    masters.restart_empty(1);
    // Two of three know nothing, and would give it away.
    let reason = down(&first).await;
    assert!(reason.contains("have a vote, and 2 are needed"), "{reason}");
    let refused = try_run(&first, Op::Acquire(acquire(2))).await;
    assert!(
        matches!(refused, Err(StoreError::Unavailable { .. })),
        "{refused:?}"
    );
    up(&first).await;
    take(&first, acquire(2)).await;
}

#[tokio::test]
async fn a_first_start_is_declared_by_any_number_of_coordinators_and_only_once() {
    let mut masters = Masters::start(3);
    let (one, two, three) = tokio::join!(
        store(&masters, "one"),
        store(&masters, "two"),
        store(&masters, "three")
    );
    take(&one, acquire(1)).await;
    // One that comes later and says the same finds it declared, which is not true of what has come back since.
    masters.restart_empty(2);
    let (late, _) = open(options(&masters, "late")).unwrap();
    up(&late).await;
    drop((one, two, three));
    masters.restart_empty(1);
    let reason = down(&late).await;
    assert!(reason.contains("1 of 3 masters have a vote"), "{reason}");
}

#[tokio::test]
async fn coordinators_must_have_the_same_maximum_ttl() {
    let masters = Masters::start(3);
    let first = store(&masters, "here").await;
    let other = Options {
        max_hold: MAX_TTL * 20,
        quorum_bootstrap: false,
        meter: leasehold_store::measure::Meter::default(),
        ..options(&masters, "other")
    };
    let (other, _) = open(other).unwrap();
    let reason = down_for(&other, "another max-ttl").await;
    assert!(reason.contains("1s"), "{reason}");
    let refused = try_run(&other, Op::Acquire(acquire(1))).await;
    assert!(
        matches!(refused, Err(StoreError::Unavailable { .. })),
        "{refused:?}"
    );
    take(&first, acquire(1)).await;
    // Once nobody uses the other one any more, it is forgotten, and nothing but their age keeps this one from serving.
    drop(first);
    let mut status = other.status();
    let lately = status.wait_for(|status| {
        matches!(status, Status::Down { reason, .. } if reason.contains("0 of 3 masters have a vote"))
    });
    let lately = tokio::time::timeout(PROMPT * 2, lately).await;
    assert!(lately.is_ok(), "{:?}", *other.status().borrow());
}

#[tokio::test]
async fn masters_that_are_declared_durable_have_to_be() {
    let masters = Masters::start(3);
    let durable = |masters: &Masters| Options {
        url: format!("redis+quorum://{}?durable=true", masters.hosts()),
        quorum_bootstrap: false,
        meter: leasehold_store::measure::Meter::default(),
        ..options(masters, "here")
    };
    let (store, _) = open(durable(&masters)).unwrap();
    let reason = down_for(&store, "appendfsync").await;
    assert!(reason.contains("declared to be durable"), "{reason}");

    // One that is not has no vote; the others are enough.
    for place in 0..2 {
        for (parameter, value) in [("appendonly", "yes"), ("appendfsync", "always")] {
            redis::cmd("CONFIG")
                .arg(&["SET", parameter, value])
                .exec(&mut masters.server(place).connection())
                .unwrap();
        }
    }
    up(&store).await;
    take(&store, acquire(1)).await;
    drop(store);

    let mut masters = Masters::start_with(&RedisServer::options().append_only(), 3);
    let (store, _) = open(durable(&masters)).unwrap();
    up(&store).await;
    let token = take(&store, acquire(1)).await;
    for place in 0..3 {
        masters.kill(place);
        masters.restart(place);
    }
    // They have a vote at once, and have forgotten nothing.
    wait::until(
        "all of them to have a vote",
        Duration::from_secs(3),
        || async {
            match try_run(&store, crate::site::renew(1)).await {
                Ok(stamped) => Ok(stamped),
                Err(error) => Err(error.to_string()),
            }
        },
    )
    .await;
    assert_eq!(
        run(&store, crate::site::release(1)).await.reply,
        crate::site::released(true)
    );
    assert!(take(&store, acquire(2)).await > token);
}
