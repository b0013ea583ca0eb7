//! Resumes that reached only some of the masters.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use leasehold_core::{
    command::{Loss, Reply},
    id::SessionId,
};
use leasehold_store::{StoreError, WakeUp, open};
use leasehold_tests::{Masters, wait};
use redis::Commands;

use crate::quorum::{
    resumed::{held, resume, resumed, resumed_from},
    site::{
        LONG, PATIENCE, PROMPT, all_hold, all_met, delete, holds, key, long, options, owner,
        release, released, renew_for, run, run_by, store, take, try_run, try_run_by, up,
    },
};

#[tokio::test]
async fn two_hung_masters_of_five_are_not_waited_for_and_follow_with_the_next_renewal() {
    let masters = Masters::start(5).bootstrapped();
    let (here, there, token) = held(&masters).await;
    masters.pause(3);
    masters.pause(4);
    let moved = run_by(&there, "there", resume(&[1], 11)).await.reply;
    assert_eq!(moved, resumed(token));
    let refused = try_run(&here, renew_for(LONG, 1))
        .await
        .unwrap()
        .executed
        .reply;
    assert_eq!(refused, Reply::Lost(Loss::Resumed));
    // What they were asked is over.
    tokio::time::sleep(PATIENCE * 2).await;
    masters.resume(3);
    masters.resume(4);
    wait::until("the two to follow", PROMPT, || async {
        let renewed = run_by(&there, "there", renew_for(LONG, 11)).await.reply;
        assert_eq!(renewed, Reply::Renewed);
        assert_eq!(
            run(&here, renew_for(LONG, 1)).await.reply,
            Reply::Lost(Loss::Resumed)
        );
        let found = [3, 4].map(|place| key(masters.server(place)));
        let next = Some(owner(11).as_bytes().to_vec());
        if found == [next.clone(), next] {
            Ok(())
        } else {
            Err(found)
        }
    })
    .await;
    // They count: without two others it is held still, and nobody brings the old one back there.
    masters.pause(0);
    masters.pause(1);
    let renewed = run_by(&there, "there", renew_for(LONG, 11)).await.reply;
    assert_eq!(renewed, Reply::Renewed);
    masters.resume(0);
    masters.resume(1);
    delete(masters.server(3));
    assert_eq!(
        run(&here, renew_for(LONG, 1)).await.reply,
        Reply::Lost(Loss::Resumed)
    );
    assert_ne!(key(masters.server(3)), Some(owner(1).as_bytes().to_vec()));
}

#[tokio::test]
async fn a_hold_on_a_master_that_hung_during_the_resume_ends_with_it() {
    let masters = Masters::start(5).bootstrapped();
    let (_here, there, token) = held(&masters).await;
    masters.pause(3);
    masters.pause(4);
    let moved = run_by(&there, "there", resume(&[1], 11)).await.reply;
    assert_eq!(moved, resumed(token));
    tokio::time::sleep(PATIENCE * 2).await;
    masters.resume(3);
    masters.resume(4);
    wait::until("the two to answer", PROMPT, || async {
        let found = [3, 4].map(|place| key(masters.server(place)));
        let old = Some(owner(1).as_bytes().to_vec());
        if found == [old.clone(), old] {
            Ok(())
        } else {
            Err(found)
        }
    })
    .await;
    assert_eq!(
        run_by(&there, "there", release(11)).await.reply,
        released(true)
    );
    all_hold(&masters, None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renewals_of_the_old_one_that_are_in_flight_do_not_bring_it_back() {
    let masters = Masters::start(5).bootstrapped();
    let (here, there, token) = held(&masters).await;
    let is_moved = Arc::new(AtomicBool::new(false));
    let over = Arc::new(AtomicBool::new(false));
    let renewing: Vec<_> = (0..8)
        .map(|_| {
            let (here, is_moved, over) = (here.clone(), Arc::clone(&is_moved), Arc::clone(&over));
            tokio::spawn(async move {
                let mut renewals = [0_u32; 2];
                while !over.load(Ordering::Relaxed) {
                    let was_moved = is_moved.load(Ordering::SeqCst);
                    let renewed = try_run(&here, renew_for(LONG, 1)).await;
                    match renewed.map(|stamped| stamped.executed.reply) {
                        Ok(Reply::Lost(Loss::Resumed)) => renewals[1] += 1,
                        Ok(Reply::Renewed) if !was_moved => renewals[0] += 1,
                        // While some masters have it under the one and some under the other.
                        Err(StoreError::Indeterminate { .. }) if !was_moved => {}
                        other => panic!("{was_moved}: {other:?}"),
                    }
                }
                renewals
            })
        })
        .collect();
    // Keys go missing all the time, so that there is always one to be set again.
    let (mut next, mut sessions) = (1, vec![1]);
    for round in 0..60 {
        let server = masters.server(usize::from(round % 5));
        let _: u8 = server.connection().del("lock:x").unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
        if round >= 20 && round % 4 == 0 {
            let moved = run_by(&there, "there", resume(&[1, next], round))
                .await
                .reply;
            assert_eq!(moved, resumed_from(token, &sessions));
            next = round;
            sessions.insert(0, round);
            sessions.truncate(3);
            is_moved.store(true, Ordering::SeqCst);
        }
        let by = if next == 1 { "here" } else { "there" };
        wait::until("it to be set again", PROMPT, || async {
            let stands = run_by(&there, by, renew_for(LONG, next)).await.reply;
            assert_eq!(stands, Reply::Renewed, "round {round}");
            let found = key(server);
            if found == Some(owner(next).as_bytes().to_vec()) {
                Ok(())
            } else {
                Err(found)
            }
        })
        .await;
    }
    over.store(true, Ordering::Relaxed);
    let mut renewals = [0, 0];
    for task in renewing {
        let [before, after] = task.await.unwrap();
        renewals = [renewals[0] + before, renewals[1] + after];
    }
    assert!(renewals[0] > 0 && renewals[1] > 0, "{renewals:?}");
    assert_eq!(
        run_by(&there, "there", release(next)).await.reply,
        released(true)
    );
    all_hold(&masters, None).await;
}

#[tokio::test]
async fn a_resume_at_a_minority_has_not_happened_and_is_tried_again() {
    let masters = Masters::start(5).bootstrapped();
    let (here, mut wake_ups) = open(options(&masters, "here")).unwrap();
    up(&here).await;
    all_met(&here, &masters, "here").await;
    let there = store(&masters, "there").await;
    let token = take(&here, long(1)).await;
    all_hold(&masters, Some(1)).await;
    for place in 2..5 {
        masters.pause(place);
    }
    let unknown = try_run_by(&there, "there", resume(&[1], 11)).await;
    assert!(
        matches!(unknown, Err(StoreError::Indeterminate { .. })),
        "{unknown:?}"
    );
    for place in 0..2 {
        holds(masters.server(place), Some(owner(11))).await;
    }
    tokio::time::sleep(PATIENCE).await;
    for place in 2..5 {
        masters.resume(place);
    }
    up(&here).await;
    up(&there).await;
    // The three have it under the old one, and do nothing any more of what they were asked.
    wait::until("it to be renewed", PROMPT, || async {
        match try_run(&here, renew_for(LONG, 1)).await {
            Ok(stamped) => {
                assert_eq!(stamped.executed.reply, Reply::Renewed);
                Ok(())
            }
            Err(error) => Err(error.to_string()),
        }
    })
    .await;
    for place in 0..5 {
        let number = if place < 2 { 11 } else { 1 };
        holds(masters.server(place), Some(owner(number))).await;
    }
    assert!(wake_ups.try_recv().is_err());
    // The same again, or that of yet another stream, finds all of them.
    wait::until("it to be resumed everywhere", PROMPT, || async {
        match try_run_by(&there, "there", resume(&[1], 11)).await {
            Ok(stamped) => assert_eq!(stamped.executed.reply, resumed(token)),
            Err(error) => return Err(error.to_string()),
        }
        let found = [2, 3, 4].map(|place| key(masters.server(place)).unwrap()[0]);
        if found == [11; 3] {
            Ok(())
        } else {
            Err(format!("{found:?}"))
        }
    })
    .await;
    let told = tokio::time::timeout(PROMPT, wake_ups.recv()).await;
    let Ok(Some(WakeUp::Resumed {
        name: of,
        owner: old,
    })) = told
    else {
        panic!("not told: {told:?}")
    };
    assert_eq!((of.as_str(), old), ("x", owner(1)));
    let third = run(&here, resume(&[1, 11], 12)).await.reply;
    assert_eq!(third, resumed_from(token, &[11, 1]));
    all_hold(&masters, Some(12)).await;
    for old in [1, 11] {
        let lost = run_by(&there, "there", renew_for(LONG, old)).await.reply;
        assert_eq!(lost, Reply::Lost(Loss::Resumed));
    }
}

#[tokio::test]
async fn a_stream_finds_what_the_ones_before_it_left_half_done() {
    let masters = Masters::start(5).bootstrapped();
    let (here, there, token) = held(&masters).await;
    // Each reached two of them.
    for (next, reached, silent) in [(11, [0, 1], [2, 3, 4]), (12, [3, 4], [0, 1, 2])] {
        for place in silent {
            masters.pause(place);
        }
        // One that hung before may not be connected again yet.
        wait::until("it to reach two", PROMPT, || async {
            let unknown = try_run_by(&there, "there", resume(&[1, 11], next)).await;
            assert!(
                matches!(unknown, Err(StoreError::Indeterminate { .. })),
                "{unknown:?}"
            );
            let found = reached.map(|place| key(masters.server(place)).unwrap()[0]);
            if found == [next; 2] {
                Ok(())
            } else {
                Err(found)
            }
        })
        .await;
        tokio::time::sleep(PATIENCE).await;
        for place in silent {
            masters.resume(place);
        }
        up(&there).await;
    }
    let found = [0, 1, 2, 3, 4].map(|place| key(masters.server(place)).unwrap()[0]);
    assert_eq!(found, [11, 11, 1, 12, 12]);
    // No majority has it under any of them.
    wait::until("it to be found", PROMPT, || async {
        match try_run(&here, resume(&[1, 11, 12], 13)).await {
            Ok(stamped) => {
                // Of those on the masters that have answered.
                let Reply::Resumed {
                    token: of, terms, ..
                } = stamped.executed.reply
                else {
                    panic!("not resumed");
                };
                assert_eq!(of, token);
                let first = SessionId::from_bytes([1; 16]);
                assert!(terms.predecessors.iter().any(|session| session == first));
                Ok(())
            }
            // Some that hung may not be connected again yet.
            Err(error) => Err(error.to_string()),
        }
    })
    .await;
    // One that was not connected again then follows with a renewal.
    wait::until("all masters to follow", PROMPT, || async {
        assert_eq!(run(&here, renew_for(LONG, 13)).await.reply, Reply::Renewed);
        let found = [0, 1, 2, 3, 4].map(|place| key(masters.server(place)));
        let all = [(); 5].map(|()| Some(owner(13).as_bytes().to_vec()));
        if found == all { Ok(()) } else { Err(found) }
    })
    .await;
}
