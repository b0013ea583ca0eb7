//! Operations that fail, and servers that do not permit all.

use leasehold_core::{
    command::{Op, Reply},
    mode::{Mode, Permits},
};
use leasehold_store::{StoreError, Subject};

use super::world::{World, acquire, command, connect, heard, look, run};
use crate::common::{PATIENCE, owner, release, release_uncleanly};

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_fails_leaves_what_the_others_tell_alone() {
    let mut world = World::on_redis().await;
    let mut feed = world.follow(Subject::Everything).await;
    let server = world.server();
    let _: i64 = server.admin("RPUSH lock:wrong 1");
    let commands =
        ["before", "wrong", "after"].map(|name| command(name, acquire(1, Mode::Exclusive)));
    let results = world.store.execute_all(commands.into()).await;
    assert!(matches!(results[1], Err(StoreError::WrongType { .. })));
    assert_eq!(heard(&mut feed).await, "*: before granted");
    assert_eq!(heard(&mut feed).await, "*: after granted");
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_before_a_failure_are_reported() {
    let mut world = World::on_redis().await;
    let mut feed = world.follow(Subject::Everything).await;
    world.run("x", acquire(1, Mode::Exclusive)).await;
    world.run("x", acquire(2, Mode::Exclusive)).await;
    let server = world.server();
    let _: i64 = server.admin("DEL lock:x");
    let _: i64 = server.admin("RPUSH lock:x 1");
    // It leaves the queue, and then can't look at the lock.
    let failed = run(&world.store, "x", release(2)).await;
    assert!(matches!(failed, Err(StoreError::WrongType { .. })));
    for expected in ["*: x granted", "*: x queued, 1 waiting", "*: x withdrawn"] {
        assert_eq!(heard(&mut feed).await, expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_work_where_nobody_may_be_asked_who_listens() {
    let mut world = World::on_redis().await;
    let server = world.server();
    let _: String = server.admin("ACL SETUSER some on >secret ~* &* +@all -pubsub");
    let url = format!("redis://some:secret@127.0.0.1:{}", server.port());
    let store = connect(&url).await;
    let mut feed = world.follow(Subject::Everything).await;
    let granted = run(&store, "x", acquire(1, Mode::Exclusive)).await.unwrap();
    assert!(matches!(granted.reply, Reply::Granted { .. }));
    let looked = run(&store, "x", look(feed.id())).await.unwrap();
    assert_eq!(looked.reply, Reply::Unheard);
    // Only what others do is told.
    world.run("x", release(1)).await;
    assert_eq!(heard(&mut feed).await, "*: x released");
}

#[tokio::test(flavor = "multi_thread")]
async fn published_messages_have_no_owner_ids() {
    let mut world = World::on_redis().await;
    let server = world.server();
    let mut connection = server.connection();
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut listener = connection.as_pubsub();
    listener.psubscribe("lh:*").unwrap();
    let feed = world.follow(Subject::Everything).await;

    let permits = Mode::Semaphore(Permits::new(1, 2).unwrap());
    for mode in [Mode::Exclusive, Mode::Shared, permits] {
        for number in 1..=4 {
            world.run("x", acquire(number, mode)).await;
        }
        world.run("x", look(feed.id())).await;
        world.run("x", Op::Downgrade { owner: owner(1) }).await;
        world.run("x", release_uncleanly(2)).await;
        world.run("x", Op::ForceRelease).await;
        world.run("x", Op::ForceRelease).await;
    }
    world.cycle("last").await;
    let mut number = 0;
    loop {
        let message = listener.get_message().unwrap();
        let payload = message.get_payload_bytes();
        // What the owner ids have in common.
        let owner = owner(1);
        assert!(
            !payload
                .windows(14)
                .any(|part| part == &owner.as_bytes()[2..])
        );
        number += 1;
        if payload.windows(4).any(|part| part == b"last") {
            break;
        }
    }
    assert!(number > 20, "only {number} messages came");
}
