//! Holds and places that another stream takes over.

use std::time::Duration;

use leasehold_core::{
    command::{Acquire, Loss, Op, Reply, Resume, ResumedTerms},
    id::{FencingToken, Predecessors, SessionId},
    mode::Mode,
    name::{ClientName, Value},
    view::HolderView,
};
use leasehold_store::Store;
use leasehold_tests::{Masters, RedisServer, wait};
use redis::Commands;

use crate::{
    quorum::site::{
        LONG, PROMPT, acquire, all_hold, delete, holds, key, long, owner, release, released,
        renew_for, run, run_by, store, take, try_run,
    },
    store,
};

pub(crate) fn resume(from: &[u8], next: u8) -> Op {
    Op::Resume(Resume {
        from: from.iter().map(|number| owner(*number)).collect(),
        next: owner(next),
        session: Some(SessionId::from_bytes([next; 16])),
        client_name: ClientName::parse("moved").unwrap(),
        ttl: LONG,
        count: 3,
        max_hold: None,
    })
}

pub(crate) fn resumed(token: FencingToken) -> Reply {
    resumed_from(token, &[1])
}

/// Returns the same with the numbers of the sessions that it was resumed from, the latest first.
pub(crate) fn resumed_from(token: FencingToken, sessions: &[u8]) -> Reply {
    let Acquire {
        mode,
        actor,
        lock_delay,
        ..
    } = acquire(1);
    Reply::Resumed {
        token,
        mode,
        actor,
        terms: Box::new(ResumedTerms {
            lock_delay,
            ends_in: None,
            predecessors: Predecessors::new(
                sessions
                    .iter()
                    .map(|number| SessionId::from_bytes([*number; 16])),
            ),
        }),
    }
}

/// Returns two coordinators, and the token of a hold of the first.
pub(crate) async fn held(masters: &Masters) -> (Store, Store, FencingToken) {
    let here = store(masters, "here").await;
    let there = store(masters, "there").await;
    let token = take(&here, long(1)).await;
    all_hold(masters, Some(1)).await;
    (here, there, token)
}

fn replaced(server: &RedisServer) -> Option<String> {
    let keys: Vec<String> = server.connection().keys("lh:*:replaced:lock:x").unwrap();
    assert!(keys.len() < 2, "{keys:?}");
    keys.into_iter().next()
}

#[tokio::test]
async fn a_hold_goes_on_under_its_next_owner_id_only() {
    let masters = Masters::start(5).bootstrapped();
    let (here, there, token) = held(&masters).await;
    for server in masters.servers() {
        assert_eq!(replaced(server), None);
    }
    for _ in 0..3 {
        let moved = run_by(&there, "there", resume(&[8, 1], 11)).await.reply;
        assert_eq!(moved, resumed(token));
    }
    all_hold(&masters, Some(11)).await;
    for server in masters.servers() {
        let key = replaced(server).unwrap();
        let mut connection = server.connection();
        let number: usize = connection.zcard(&key).unwrap();
        assert_eq!(number, 2);
        let left: u64 = connection.pttl(&key).unwrap();
        let memory = u64::try_from((store::LONG * 2).as_millis()).unwrap();
        assert!((1..=memory + 1).contains(&left), "{left}");
    }
    let view = match run(&here, Op::view(0)).await.reply {
        Reply::Seen(view) => *view,
        other => panic!("no view: {other:?}"),
    };
    let [HolderView::Ours(holder)] = &view.holders[..] else {
        panic!("no holder: {view:?}")
    };
    assert_eq!((holder.token, holder.count), (token, 3));
    assert_eq!(holder.client_name.as_str(), "moved");
    assert_eq!(holder.coordinator.as_str(), "there");
    assert_eq!(holder.session, Some(SessionId::from_bytes([11; 16])));
    assert_eq!(holder.value.as_bytes(), b"value");
    // The old one can do nothing.
    let refused = [
        (renew_for(LONG, 1), Reply::Lost(Loss::Resumed)),
        (release(1), released(false)),
        (
            Op::SetCount {
                owner: owner(1),
                count: 9,
            },
            Reply::Changed(false),
        ),
        (
            Op::SetValue {
                owner: owner(1),
                value: Value::parse(b"old").unwrap(),
            },
            Reply::Changed(false),
        ),
        (resume(&[1], 12), Reply::Lost(Loss::Resumed)),
        (
            Op::Acquire(Acquire {
                again: true,
                ..acquire(1)
            }),
            Reply::Lost(Loss::Resumed),
        ),
        // Somebody else's of the same owner id.
        (resume(&[8, 1], 11), Reply::Lost(Loss::Resumed)),
    ];
    for (op, reply) in refused {
        assert_eq!(run(&here, op).await.reply, reply);
    }
    all_hold(&masters, Some(11)).await;
    // And the next one everything, whose release is found; then the old one is none again.
    assert_eq!(
        run_by(&there, "there", renew_for(LONG, 11)).await.reply,
        Reply::Renewed
    );
    assert_eq!(
        run_by(&there, "there", release(11)).await.reply,
        released(true)
    );
    assert_eq!(
        run(&here, Op::Acquire(acquire(1))).await.reply,
        Reply::Lost(Loss::Resumed)
    );
    assert!(take(&here, acquire(2)).await > token);
}

#[tokio::test]
async fn a_resume_brings_a_bound_that_stays() {
    let masters = Masters::start(3).bootstrapped();
    let (_here, there, token) = held(&masters).await;
    let within = |max_hold, from, next| match resume(&[from], next) {
        Op::Resume(resume) => Op::Resume(Resume { max_hold, ..resume }),
        other => panic!("{other:?}"),
    };
    let bounds = [Some(LONG), Some(2 * LONG), None];
    for ((from, next), max_hold) in [(1, 11), (11, 12), (12, 13)].into_iter().zip(bounds) {
        let reply = run_by(&there, "there", within(max_hold, from, next)).await;
        let Reply::Resumed {
            token: of, terms, ..
        } = reply.reply
        else {
            panic!("not resumed")
        };
        assert_eq!(of, token);
        assert!(terms.ends_in.is_some_and(|ends_in| ends_in <= LONG));
    }
    let over = within(Some(Duration::from_millis(1)), 13, 14);
    let lost = run_by(&there, "there", over).await.reply;
    assert_eq!(lost, Reply::Lost(Loss::Expired));
}

#[tokio::test]
async fn a_missing_key_is_set_again_but_no_majority_of_them() {
    let masters = Masters::start(5).bootstrapped();
    let (_here, there, token) = held(&masters).await;
    for place in [1, 3] {
        delete(masters.server(place));
    }
    let moved = run_by(&there, "there", resume(&[1], 11)).await.reply;
    assert_eq!(moved, resumed(token));
    all_hold(&masters, Some(11)).await;
    // Where the votes of those that lack it are needed, too.
    for place in [1, 3] {
        delete(masters.server(place));
    }
    masters.pause(4);
    let moved = run_by(&there, "there", resume(&[11], 12)).await.reply;
    assert_eq!(moved, resumed_from(token, &[11, 1]));
    masters.resume(4);
    for place in 0..4 {
        holds(masters.server(place), Some(owner(12))).await;
    }
    for place in [0, 1, 3] {
        delete(masters.server(place));
    }
    let lost = run_by(&there, "there", resume(&[12], 13)).await.reply;
    assert_eq!(lost, Reply::Lost(Loss::Deleted));
    // Nothing is left of it.
    for server in masters.servers() {
        wait::until("nothing to be left under the next", PROMPT, || async {
            let found = key(server);
            if found == Some(owner(13).as_bytes().to_vec()) {
                Err(found)
            } else {
                Ok(())
            }
        })
        .await;
    }
}

#[tokio::test]
async fn lost_holds_are_refused_with_their_reason() {
    let masters = Masters::start(3).bootstrapped();
    let (here, there, _) = held(&masters).await;
    let refused = async |op, why| {
        let reply = run_by(&there, "there", op).await.reply;
        assert_eq!(reply, Reply::Lost(why));
    };
    refused(resume(&[7], 17), Loss::Taken).await;
    assert_eq!(run(&here, release(1)).await.reply, released(true));
    all_hold(&masters, None).await;
    refused(resume(&[1], 11), Loss::Deleted).await;
    for server in masters.servers() {
        assert_eq!(replaced(server), None);
    }
    let delayed = Acquire {
        ttl: Duration::from_secs(2),
        lock_delay: LONG,
        ..acquire(2)
    };
    take(&here, delayed).await;
    tokio::time::sleep(Duration::from_millis(2_050)).await;
    refused(resume(&[2], 12), Loss::Expired).await;
}

#[tokio::test]
async fn a_place_is_resumed_where_it_is_and_a_grant_that_came_of_it_anywhere() {
    let masters = Masters::start(5).bootstrapped();
    let (here, there, token) = held(&masters).await;
    for (place, number) in [(1, 2), (2, 3)] {
        let waits = Acquire {
            wait: true,
            ..long(number)
        };
        match run(&here, Op::Acquire(waits)).await.reply {
            Reply::Queued { position, .. } => assert_eq!(position, place),
            other => panic!("not queued: {other:?}"),
        }
    }
    let elsewhere = run_by(&there, "there", resume(&[2], 19)).await.reply;
    assert_eq!(elsewhere, Reply::Lost(Loss::Taken));
    for _ in 0..2 {
        let reply = run(&here, resume(&[2], 12)).await.reply;
        let Reply::ResumedWait {
            waiter, position, ..
        } = reply
        else {
            panic!("not resumed: {reply:?}")
        };
        let acquire = waiter.acquire;
        assert_eq!((acquire.owner, position), (owner(12), 1));
        assert_eq!(acquire.session, Some(SessionId::from_bytes([12; 16])));
        assert_eq!((acquire.mode, acquire.wait), (Mode::Exclusive, true));
    }
    // The old ticket is nobody's.
    assert_eq!(run(&here, release(2)).await.reply, released(false));
    assert_eq!(run(&here, release(1)).await.reply, released(true));
    all_hold(&masters, Some(12)).await;
    // From when it is granted, which is later than the keys are set.
    let next = wait::until("what was granted to be resumed", PROMPT, || async {
        match run_by(&there, "there", resume(&[2, 12], 22)).await.reply {
            Reply::Resumed { token, .. } => Ok(token),
            other => Err(other),
        }
    })
    .await;
    assert!(next > token);
    all_hold(&masters, Some(22)).await;
    assert_eq!(
        run_by(&there, "there", release(22)).await.reply,
        released(true)
    );
    all_hold(&masters, Some(3)).await;
}

#[tokio::test]
async fn grants_of_a_resumed_or_left_place_are_given_back() {
    let masters = Masters::start(3).bootstrapped();
    let store = store(&masters, "here").await;
    let ask = |number| {
        let waits = Acquire {
            wait: true,
            ..long(number)
        };
        try_run(&store, Op::Acquire(waits))
    };
    // Each acquire is in line, and about to be sent to the masters, when the other operation comes.
    let (asked, moved) = tokio::join!(ask(1), try_run(&store, resume(&[1], 11)));
    assert_eq!(asked.unwrap().executed.reply, Reply::Lost(Loss::Resumed));
    let moved = moved.unwrap().executed.reply;
    assert!(matches!(moved, Reply::ResumedWait { .. }), "{moved:?}");
    all_hold(&masters, Some(11)).await;
    // The store knows of the grant later than the keys are set.
    wait::until("the resumed acquire to be granted", PROMPT, || async {
        match run(&store, resume(&[1], 11)).await.reply {
            Reply::Resumed { .. } => Ok(()),
            other => Err(other),
        }
    })
    .await;
    assert_eq!(run(&store, release(11)).await.reply, released(true));

    let (asked, left) = tokio::join!(ask(2), try_run(&store, release(2)));
    assert_eq!(
        asked.unwrap().executed.reply,
        Reply::Busy { holder: None },
        "it has left"
    );
    let left = left.unwrap().executed.reply;
    assert!(
        matches!(left, Reply::Released { waited: true, .. }),
        "{left:?}"
    );
    let next = ask(3).await.unwrap().executed.reply;
    assert!(
        matches!(next, Reply::Granted { .. } | Reply::Queued { .. }),
        "{next:?}"
    );
    all_hold(&masters, Some(3)).await;
}
