//! Votes of masters at their first start, after a restart, and when they come back empty.

use std::time::Duration;

use leasehold_core::command::Op;
use leasehold_store::{
    Options, Status, Store, StoreError, WakeUp, open,
    quorum::bootstrap::{BootstrapError, Bootstrapped, bootstrap},
};
use leasehold_tests::{Masters, RedisServer, wait};
use redis::Commands;
use tokio::sync::mpsc::Receiver;

use crate::quorum::site::{
    LONG, MAX_TTL, PROMPT, acquire, all_hold, down, down_for, key, long, options, release,
    released, renew_for, run, store, take, try_run, up,
};

/// Opens a store on masters that are declared to be durable. No master that restarts has a vote within the test for any other reason.
fn durable(masters: &Masters) -> (Store, Receiver<WakeUp>) {
    open(Options {
        url: format!("redis+quorum://{}?durable=true", masters.hosts()),
        max_hold: Duration::from_secs(3600),
        ..options(masters, "here")
    })
    .unwrap()
}

/// Fails unless a store refuses an acquire because no majority has a vote.
async fn is_refused(store: &Store, number: u8) {
    let refused = try_run(store, Op::Acquire(acquire(number))).await;
    assert!(
        matches!(refused, Err(StoreError::Unavailable { .. })),
        "{refused:?}"
    );
}

/// Fails unless a first start can't be declared of masters, one of which knows a grant.
async fn knows_grants(masters: &Masters) {
    let refused = bootstrap(masters.set()).await;
    assert!(
        matches!(refused, Err(BootstrapError::KnowsGrants { .. })),
        "{refused:?}"
    );
}

#[tokio::test]
async fn masters_that_were_started_lately_have_no_vote_at_first() {
    let masters = Masters::start(3);
    let (store, _) = open(options(&masters, "here")).unwrap();
    let reason = down_for(&store, "may have come back without what it knew").await;
    assert!(reason.contains("0 of 3 masters have a vote"), "{reason}");
    let refused = try_run(&store, Op::Acquire(acquire(1))).await;
    let Err(StoreError::Unavailable { reason }) = refused else {
        panic!("not unavailable: {refused:?}")
    };
    assert!(reason.contains("has a vote in"), "{reason}");
    // They have one when nothing that they could have forgotten stands any more.
    up(&store).await;
    take(&store, acquire(2)).await;
    // An operator who declares a first start now is wrong.
    knows_grants(&masters).await;
}

#[tokio::test]
async fn a_master_that_comes_back_empty_has_no_vote_for_a_while() {
    let mut masters = Masters::start(3).bootstrapped();
    let first = store(&masters, "here").await;
    take(&first, acquire(1)).await;
    masters.restart_empty(0);
    masters.restart_empty(1);
    // Two of three know nothing, and would give it away.
    let reason = down(&first).await;
    assert!(reason.contains("have a vote, and 2 are needed"), "{reason}");
    is_refused(&first, 2).await;
    up(&first).await;
    take(&first, acquire(2)).await;
}

#[tokio::test]
async fn a_first_start_is_declared_once() {
    let mut masters = Masters::start(3);
    // Nothing could give them a vote within this test but the declaration.
    let patient = |masters: &Masters, coordinator| Options {
        max_hold: Duration::from_secs(3600),
        ..options(masters, coordinator)
    };
    let (waiting, _) = open(patient(&masters, "waiting")).unwrap();
    down_for(&waiting, "0 of 3 masters have a vote").await;
    let done = bootstrap(masters.set()).await.unwrap();
    assert_eq!(done, Bootstrapped::Marked(3));
    let again = bootstrap(masters.set()).await.unwrap();
    assert_eq!(again, Bootstrapped::Already);
    // A coordinator that waits for them notices.
    up(&waiting).await;
    take(&waiting, acquire(1)).await;
    let again = bootstrap(masters.set()).await.unwrap();
    assert_eq!(again, Bootstrapped::Already);

    // The declaration is not true of a master that has come back since.
    masters.restart_empty(2);
    let (late, _) = open(patient(&masters, "late")).unwrap();
    up(&late).await;
    knows_grants(&masters).await;
    drop(waiting);
    masters.restart_empty(1);
    let reason = down(&late).await;
    assert!(reason.contains("1 of 3 masters have a vote"), "{reason}");
}

#[tokio::test]
async fn nothing_is_marked_unless_all_masters_answer() {
    let mut masters = Masters::start(3);
    masters.kill(2);
    let refused = bootstrap(masters.set()).await;
    let Err(BootstrapError::Unreachable { master, .. }) = refused else {
        panic!("not unreachable: {refused:?}")
    };
    let down = masters.server(2).address().to_string();
    assert!(master.contains(&down), "{master}");
    for place in 0..2 {
        let keys: Vec<String> = masters.server(place).connection().keys("*").unwrap();
        assert!(keys.is_empty(), "{keys:?}");
    }
}

#[tokio::test]
async fn a_coordinator_does_not_bootstrap_masters_that_all_came_back_empty() {
    let mut masters = Masters::start(3).bootstrapped();
    let store = store(&masters, "here").await;
    take(&store, long(1)).await;
    for place in 0..3 {
        masters.kill(place);
    }
    down(&store).await;
    for place in 0..3 {
        masters.restart_empty(place);
    }
    let reason = down_for(&store, "0 of 3 masters have a vote").await;
    assert!(!reason.contains("1 of 3"), "{reason}");
    // Whoever holds it may still believe so.
    is_refused(&store, 2).await;
    // The masters vote again by themselves when that is over.
    up(&store).await;
    take(&store, acquire(2)).await;
}

#[tokio::test]
async fn a_master_with_a_hold_that_was_restored_there_knows_a_grant() {
    let mut masters = Masters::start(3).bootstrapped();
    let store = store(&masters, "here").await;
    take(&store, long(1)).await;
    all_hold(&masters, Some(1)).await;
    masters.restart_empty(0);
    wait::until("an extend to set it again", PROMPT, || async {
        let renewed = try_run(&store, renew_for(LONG, 1)).await;
        match key(masters.server(0)) {
            Some(_) => Ok(()),
            None => Err(renewed),
        }
    })
    .await;
    drop(store);
    masters.restart_empty(1);
    masters.restart_empty(2);
    // No coordinator has counted a vote of any of them since.
    let refused = bootstrap(masters.set()).await;
    let Err(BootstrapError::KnowsGrants { master }) = refused else {
        panic!("not refused: {refused:?}")
    };
    let knows = masters.server(0).address().to_string();
    assert!(master.contains(&knows), "{master}");
}

#[tokio::test]
async fn coordinators_must_have_the_same_maximum_ttl() {
    let masters = Masters::start(3).bootstrapped();
    let first = store(&masters, "here").await;
    let other = Options {
        max_hold: MAX_TTL * 20,
        ..options(&masters, "other")
    };
    let (other, _) = open(other).unwrap();
    let reason = down_for(&other, "another max-ttl").await;
    assert!(reason.contains("1s"), "{reason}");
    is_refused(&other, 1).await;
    take(&first, acquire(1)).await;
    // Once nobody uses the other one any more, it is forgotten, and nothing keeps this one from serving.
    drop(first);
    let mut status = other.status();
    let agrees = tokio::time::timeout(PROMPT * 2, status.wait_for(Status::is_up)).await;
    assert!(agrees.is_ok(), "{:?}", *other.status().borrow());
}

#[tokio::test]
async fn masters_that_are_declared_durable_have_to_be() {
    let masters = Masters::start(3).bootstrapped();
    let (store, _) = durable(&masters);
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

    let mut masters = Masters::start_with(&RedisServer::options().append_only(), 3).bootstrapped();
    let (store, _) = durable(&masters);
    up(&store).await;
    // It outlasts the restarts.
    let token = take(&store, long(1)).await;
    for place in 0..3 {
        masters.kill(place);
        masters.restart(place);
    }
    // They have forgotten nothing, and have a vote.
    wait::until("all of them to have a vote", PROMPT, || async {
        let renewed = try_run(&store, renew_for(LONG, 1)).await;
        renewed.map_err(|error| error.to_string())
    })
    .await;
    assert_eq!(run(&store, release(1)).await.reply, released(true));
    assert!(take(&store, acquire(2)).await > token);
}

#[tokio::test]
async fn a_master_that_is_declared_durable_and_is_empty_has_no_vote() {
    let append_only = RedisServer::options().append_only();
    let mut masters = Masters::start_with(&append_only, 3).bootstrapped();
    let (store, _) = durable(&masters);
    up(&store).await;
    take(&store, acquire(1)).await;
    drop(store);
    // Two disks are replaced.
    masters.restart_empty(0);
    masters.restart_empty(1);
    let (store, _) = durable(&masters);
    down_for(&store, "1 of 3 masters have a vote").await;
    is_refused(&store, 2).await;
}
