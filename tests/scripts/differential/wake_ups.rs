//! Wake-ups of a coordinator by another coordinator's operation on several owner ids at once.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use leasehold_core::{
    command::{Acquire, Executed, One, Op, ReleaseRequest, Reply},
    id::{CoordinatorId, FencingToken, OwnerId, ReleaseRequestId},
    lock::LockState,
    mode::{Mode, Permits},
    name::{LockName, MAX_REASON, ReleaseReason},
};
use leasehold_store::{Options, Store, WakeUp};
use leasehold_tests::{RedisServer, wait};
use tokio::sync::mpsc;

use crate::common::{
    PATIENCE, acquire, acquiring, caller, command, connect, options, owner, release, resume,
};

/// Carries an operation out for a coordinator, through whichever store.
async fn run(store: &Store, coordinator: &str, op: Op) -> Executed {
    let executed = store.execute(command("told", coordinator, op));
    executed.await.unwrap().executed
}

fn told() -> LockName {
    LockName::parse("told").unwrap()
}

/// Returns a store that receives the messages for its coordinator, which is called `watching`.
async fn listen(redis: &RedisServer) -> (Store, mpsc::Receiver<WakeUp>) {
    let (store, wake_ups) = connect(Options {
        coordinator: CoordinatorId::new("watching"),
        ..options(&redis.url())
    })
    .await;
    let connection = redis.async_connection().await;
    wait::until("the subscription", PATIENCE, || async {
        let mut listeners = redis::cmd("PUBSUB");
        listeners.arg("NUMSUB").arg("lh:wake:watching");
        let (_, number): (String, u64) = listeners
            .query_async(&mut connection.clone())
            .await
            .unwrap();
        if number == 1 { Ok(()) } else { Err(number) }
    })
    .await;
    (store, wake_ups)
}

async fn next(wake_ups: &mut mpsc::Receiver<WakeUp>) -> WakeUp {
    let next = tokio::time::timeout(PATIENCE, wake_ups.recv());
    next.await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_of_several_is_told_by_a_message_of_its_own() {
    let redis = RedisServer::start();
    let (store, mut wake_ups) = listen(&redis).await;
    run(&store, "here", acquire(0, Mode::Exclusive)).await;
    for number in 1..=3 {
        run(&store, "watching", acquire(number, Mode::Shared)).await;
    }
    run(&store, "here", acquire(4, Mode::Shared)).await;

    let handed = run(&store, "here", release(0)).await.handed;
    let tokens: BTreeMap<OwnerId, FencingToken> = handed
        .iter()
        .map(|grant| (grant.owner, grant.token))
        .collect();
    assert_eq!(tokens.len(), 4);
    for number in 1..=3 {
        let granted = WakeUp::Granted {
            name: told(),
            owner: owner(number),
            token: tokens[&owner(number)],
            permits: None,
            of_session: true,
        };
        assert_eq!(next(&mut wake_ups).await, granted);
    }

    run(&store, "here", Op::ForceRelease).await;
    let mut former = Vec::new();
    for _ in 1..=3 {
        match next(&mut wake_ups).await {
            WakeUp::Forced { owner, .. } => former.push(owner),
            other => panic!("they were forced, not {other:?}"),
        }
    }
    former.sort_unstable();
    assert_eq!(former, [1, 2, 3].map(owner));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_is_told_which_of_its_holds_or_waits_an_operator_ended() {
    let redis = RedisServer::start();
    let (store, mut wake_ups) = listen(&redis).await;
    let mut tokens = Vec::new();
    for number in 1..=2 {
        let granted = run(&store, "watching", acquire(number, Mode::Shared)).await;
        match granted.reply {
            Reply::Granted { token, .. } => tokens.push(token),
            other => panic!("{other:?}"),
        }
    }
    for number in 3..=4 {
        run(&store, "watching", acquire(number, Mode::Exclusive)).await;
    }
    let one = Op::ForceReleaseOne(One::Holder(tokens[0]));
    run(&store, "here", one).await;
    let forced = WakeUp::Forced {
        name: told(),
        owner: owner(1),
    };
    assert_eq!(next(&mut wake_ups).await, forced);
    let seen = run(&store, "here", Op::view(2)).await.reply;
    let Reply::Seen(seen) = seen else {
        panic!("{seen:?}")
    };
    assert_eq!((seen.holder_count, seen.waiter_count), (1, 2));
    let one = Op::ForceReleaseOne(One::Waiter(seen.waiters[1].number));
    run(&store, "here", one).await;
    let owner = owner(4);
    assert_eq!(
        next(&mut wake_ups).await,
        WakeUp::ForcedWaiter {
            name: told(),
            owner
        }
    );
}

/// Asks for the release of what is held here and there, and compares the answer with that of the rules, and the messages with
/// what the rules say who is asked.
#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_is_told_which_of_its_holds_an_operator_asks_for() {
    let redis = RedisServer::start();
    let (store, mut wake_ups) = listen(&redis).await;
    let mut rules = LockState::default();
    let mut both = async |coordinator: &str, op: Op| {
        let executed = run(&store, coordinator, op.clone()).await;
        let caller = caller(coordinator);
        let expected = rules.apply(&caller, &op, executed.at);
        assert_eq!(executed.reply, expected.reply, "{op:?}");
        executed.reply
    };
    let request = |number: u64| {
        Arc::new(ReleaseRequest {
            id: ReleaseRequestId::new(number),
            reason: ReleaseReason::parse(&"ä".repeat(MAX_REASON / 2)).unwrap(),
            within: (number > 1).then(|| Duration::from_secs(24 * 60 * 60)),
        })
    };
    let mut tokens = Vec::new();
    for (number, coordinator) in (1..).zip(["watching", "watching", "here"]) {
        match both(coordinator, acquire(number, Mode::Shared)).await {
            Reply::Granted { token, .. } => tokens.push(token),
            other => panic!("{other:?}"),
        }
    }
    // One without a stream.
    let unary = Acquire {
        session: None,
        ..acquiring(4, Mode::Shared)
    };
    both("watching", Op::Acquire(unary)).await;
    let mut number = 0;
    for only in [None, Some(tokens[1]), Some(FencingToken::new(i64::MAX))] {
        number += 1;
        let (op, asked) = (request(number), request(number));
        let op = Op::RequestRelease { only, request: op };
        let Reply::Asked { holders } = both("here", op).await else {
            panic!("it was asked for")
        };
        let there = holders.iter();
        let there = there.filter(|hold| hold.holder.coordinator.as_str() == "watching");
        let mut owners = Vec::new();
        for _ in there.clone() {
            match next(&mut wake_ups).await {
                WakeUp::ReleaseRequested {
                    name,
                    owner,
                    token,
                    request,
                } => {
                    assert_eq!((name, request), (told(), Arc::clone(&asked)));
                    owners.push((owner, token));
                }
                other => panic!("{other:?}"),
            }
        }
        owners.sort_unstable();
        let due = there.map(|hold| (hold.holder.owner, hold.token));
        assert_eq!(owners, due.collect::<Vec<_>>());
        let expected = [3, 1, 0][usize::try_from(number - 1).unwrap()];
        assert_eq!(holders.len(), expected);
    }
    // One that is alone.
    both("here", Op::ForceRelease).await;
    for _ in 1..=3 {
        next(&mut wake_ups).await;
    }
    let Reply::Granted { token, .. } = both("watching", acquire(5, Mode::Exclusive)).await else {
        panic!("it was free")
    };
    let request = request(9);
    let op = Op::RequestRelease {
        only: None,
        request: Arc::clone(&request),
    };
    both("here", op).await;
    let asked = WakeUp::ReleaseRequested {
        name: told(),
        owner: owner(5),
        token,
        request,
    };
    assert_eq!(next(&mut wake_ups).await, asked);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_is_told_of_what_another_one_resumed() {
    let redis = RedisServer::start();
    let (store, mut wake_ups) = listen(&redis).await;
    let resumed = |number| WakeUp::Resumed {
        name: told(),
        owner: owner(number),
    };
    // A hold that is alone, and one that waits behind it.
    run(&store, "watching", acquire(1, Mode::Exclusive)).await;
    run(&store, "watching", acquire(2, Mode::Shared)).await;
    run(&store, "here", resume(&[1], 11)).await;
    assert_eq!(next(&mut wake_ups).await, resumed(1));
    // Under the second of those that it may be.
    run(&store, "here", resume(&[9, 2], 12)).await;
    assert_eq!(next(&mut wake_ups).await, resumed(2));
    // One of several.
    run(&store, "watching", acquire(3, Mode::Shared)).await;
    run(&store, "here", release(11)).await;
    assert!(matches!(
        next(&mut wake_ups).await,
        WakeUp::Granted { owner: granted, .. } if granted == owner(3)
    ));
    run(&store, "here", resume(&[3], 13)).await;
    assert_eq!(next(&mut wake_ups).await, resumed(3));
    // Its own, and what it resumed before: it knows. What is told next is of another.
    run(&store, "watching", resume(&[13], 23)).await;
    run(&store, "watching", resume(&[13], 23)).await;
    run(&store, "watching", resume(&[23], 33)).await;
    run(&store, "here", resume(&[33], 43)).await;
    assert_eq!(next(&mut wake_ups).await, resumed(33));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_is_told_the_number_of_permits_that_was_left_to_the_store() {
    let redis = RedisServer::start();
    let (store, mut wake_ups) = listen(&redis).await;
    let permits = Permits::new(1_000_000, 1_000_000).unwrap();
    run(&store, "here", acquire(0, Mode::Semaphore(permits))).await;
    let left = Mode::Semaphore(permits.or_at_least(1));
    for unary in [false, true] {
        let number = 1 + u16::from(unary);
        let asked = acquiring(number, left);
        let session = asked.session.filter(|_| !unary);
        let asked = Acquire { session, ..asked };
        run(&store, "watching", Op::Acquire(asked)).await;
        let handed = run(&store, "here", release(number - 1)).await.handed;
        let granted = WakeUp::Granted {
            name: told(),
            owner: owner(number),
            token: handed[0].token,
            permits: Some(1_000_000),
            of_session: !unary,
        };
        assert_eq!(next(&mut wake_ups).await, granted);
    }
}
