//! Who is told of what another coordinator's operation did to several at once.

use std::{collections::BTreeMap, time::Duration};

use leasehold_core::{
    command::{Caller, Command, Executed, Op},
    id::{CoordinatorId, FencingToken, OwnerId},
    mode::Mode,
    name::LockName,
};
use leasehold_store::{LockStore, Store, WakeUp};
use leasehold_tests::RedisServer;
use tokio::sync::mpsc;

use crate::{
    connect_and_listen,
    pair::{acquire, owner, release},
};

/// Carries an operation out for a coordinator, through whichever store.
async fn run(store: &Store, coordinator: &str, op: Op) -> Executed {
    let command = Command {
        name: LockName::parse("told").unwrap(),
        caller: Caller {
            coordinator: CoordinatorId::new(coordinator),
            floor: FencingToken::new(0),
            token_memory: Duration::from_secs(60),
            not_after: None,
        },
        op,
    };
    store.execute(command).await.unwrap().executed
}

async fn next(wake_ups: &mut mpsc::Receiver<WakeUp>) -> WakeUp {
    let next = tokio::time::timeout(Duration::from_secs(10), wake_ups.recv());
    next.await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_of_several_is_told_by_a_message_of_its_own() {
    let redis = RedisServer::start();
    let (store, mut wake_ups) = connect_and_listen(&redis).await;
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
        let told = next(&mut wake_ups).await;
        let granted = WakeUp::Granted {
            name: LockName::parse("told").unwrap(),
            owner: owner(number),
            token: tokens[&owner(number)],
            of_session: true,
        };
        assert_eq!(told, granted);
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
