//! Late commands on a master that was hung, or that missed something.

use leasehold_core::command::{Acquire, Loss, Op, Reply};
use leasehold_tests::{Masters, RedisServer, wait};
use redis::Commands;

use crate::quorum::site::{
    LONG, PATIENCE, PROMPT, acquire, all_hold, all_met, delete, holds, key, long, owner, release,
    released, renew_for, run, store, take,
};

/// Returns the number of scripts that a server was asked to run.
fn scripts_run(server: &RedisServer) -> u64 {
    let stats: String = redis::cmd("INFO")
        .arg("commandstats")
        .query(&mut server.connection())
        .unwrap();
    let line = stats
        .lines()
        .find(|line| line.starts_with("cmdstat_evalsha:"));
    let calls = line.and_then(|line| line.split("calls=").nth(1)?.split(',').next());
    calls.map_or(0, |calls| calls.parse().unwrap())
}

#[tokio::test]
async fn old_commands_for_a_hung_master_do_nothing() {
    let masters = Masters::start(5).bootstrapped();
    let store = store(&masters, "here").await;
    let hung = masters.server(4);
    let before = scripts_run(hung);
    masters.pause(4);
    take(&store, long(1)).await;
    tokio::time::sleep(PATIENCE * 2).await;
    masters.resume(4);
    // It gets to both rounds now.
    wait::until("the hung master to catch up", PROMPT, || async {
        let number = scripts_run(hung);
        if number >= before + 2 {
            Ok(())
        } else {
            Err(number)
        }
    })
    .await;
    assert_eq!(key(hung), None);
    // It has the lock as soon as an extend reaches it.
    wait::until("it to be set again", PROMPT, || async {
        let renewed = run(&store, renew_for(LONG, 1)).await.reply;
        assert_eq!(renewed, Reply::Renewed);
        let found = key(hung);
        if found.is_some() { Ok(()) } else { Err(found) }
    })
    .await;
}

#[tokio::test]
async fn leftovers_of_a_failed_attempt_are_undone_in_the_background() {
    let masters = Masters::start(5).bootstrapped();
    let store = store(&masters, "here").await;
    // Somebody else has it on three of them.
    for server in &masters.servers()[..3] {
        let _: () = server
            .connection()
            .set_ex("lock:x", "somebody else", 60)
            .unwrap();
    }
    let busy = run(&store, Op::Acquire(acquire(1))).await.reply;
    assert!(matches!(busy, Reply::Busy { .. }), "{busy:?}");
    for server in &masters.servers()[3..] {
        holds(server, None).await;
    }
}

#[tokio::test]
async fn an_extend_sets_nothing_where_a_newer_token_is() {
    let masters = Masters::start(5).bootstrapped();
    let store = store(&masters, "here").await;
    let token = take(&store, long(1)).await;
    for place in [0, 1] {
        let server = masters.server(place);
        holds(server, Some(owner(1))).await;
        delete(server);
        // As a release leaves it that has reached but these two.
        let mut connection = server.connection();
        let records: Vec<String> = connection.keys("lh:*:token:lock:x").unwrap();
        let mut record = (token.get() + 1).to_be_bytes().to_vec();
        record.extend_from_slice(&[0; 8]);
        let _: () = connection.set_ex(&records[0], record, 60).unwrap();
    }
    for _ in 0..3 {
        let renewed = run(&store, renew_for(LONG, 1)).await;
        assert_eq!(renewed.reply, Reply::Renewed);
    }
    // What comes behind it in the same connection has been carried out.
    all_met(&store, &masters, "here, after it").await;
    for place in [0, 1] {
        assert_eq!(key(masters.server(place)), None);
    }
}

#[tokio::test]
async fn a_release_is_made_up_for_where_nobody_answered() {
    let masters = Masters::start(5).bootstrapped();
    let store = store(&masters, "here").await;
    take(&store, long(1)).await;
    all_hold(&masters, Some(1)).await;
    masters.pause(2);
    assert_eq!(run(&store, release(1)).await.reply, released(true));
    masters.resume(2);
    holds(masters.server(2), None).await;
}

#[tokio::test]
async fn a_force_is_made_up_for_where_nobody_answered() {
    let masters = Masters::start(5).bootstrapped();
    let store = store(&masters, "here").await;
    take(&store, long(1)).await;
    all_hold(&masters, Some(1)).await;
    masters.pause(2);
    let forced = run(&store, Op::ForceRelease).await.reply;
    assert!(
        matches!(forced, Reply::Forced { released: true, .. }),
        "{forced:?}"
    );
    // What it was asked then is over.
    tokio::time::sleep(PATIENCE * 2).await;
    masters.resume(2);
    holds(masters.server(2), None).await;
}

#[tokio::test]
async fn a_lost_hold_is_ended_at_a_minority_that_has_it() {
    let masters = Masters::start(5).bootstrapped();
    let store = store(&masters, "here").await;
    take(&store, long(1)).await;
    all_hold(&masters, Some(1)).await;
    for server in &masters.servers()[..3] {
        delete(server);
    }
    // For longer than what is left is waited for.
    let renewed = run(&store, renew_for(LONG, 1)).await.reply;
    assert_eq!(renewed, Reply::Lost(Loss::Deleted));
    all_hold(&masters, None).await;
}

#[tokio::test]
async fn a_waiter_that_holds_the_lock_is_released() {
    let masters = Masters::start(5).bootstrapped();
    let store = store(&masters, "here").await;
    let waits = |number| Acquire {
        wait: true,
        again: true,
        ..long(number)
    };
    take(&store, waits(1)).await;
    for number in [2, 1] {
        let queued = run(&store, Op::Acquire(waits(number))).await.reply;
        assert!(matches!(queued, Reply::Queued { .. }), "{queued:?}");
    }
    run(&store, release(1)).await;
    // The next one has it.
    all_hold(&masters, Some(2)).await;
}
