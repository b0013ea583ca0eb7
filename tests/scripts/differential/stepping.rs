//! A server's clock that steps, while floors run ahead and memories are short.

use std::time::Duration;

use leasehold_core::{
    command::{DEAD_AFTER, Op, PLACES_KEPT, Reply},
    id::OwnerId,
    mode::Mode,
    time::StoreTime,
};

use crate::{
    common::{acquire, owner, release},
    differential::{
        history::{Group, Kind, Met},
        pair::Pair,
        server::Server,
    },
};

/// Commands of each lock's history.
const LENGTH: usize = 400;
/// Commands that must have been compared.
const COMMANDS: usize = 8_000;
/// Tokens that must have been minted ahead of the clock.
const AHEAD: usize = 300;
/// Records that must have been there when the memory had passed since their last use, since their token was still ahead.
const OUTLIVED: usize = 20;

#[tokio::test(flavor = "multi_thread")]
async fn random_histories_agree_while_the_clock_steps() {
    let mut server = Server::start().await;
    let store = server.connect().await;
    let mut met = Met::default();
    for (seed, kind) in (0..).zip([Kind::Ahead, Kind::Back, Kind::Ahead, Kind::Back]) {
        let group = Group::new(&mut server, &store, None, kind, seed);
        met.add(&group.await.run(LENGTH).await);
    }
    println!("{met:?}");
    assert!(met.commands > COMMANDS, "only {} commands", met.commands);
    assert!(met.ahead > AHEAD, "only {} tokens were ahead", met.ahead);
    let outlived = met.outlived;
    assert!(outlived > OUTLIVED, "only {outlived} records outlived");
}

/// Has a lock held and two coordinators' waiters queued for it, in this order, and steps the clock back by an hour.
async fn step_back(server: &mut Server, lock: &mut Pair) -> StoreTime {
    lock.run("holder", acquire(0, Mode::Exclusive)).await;
    lock.run("silent", acquire(1, Mode::Exclusive)).await;
    lock.run("living", acquire(2, Mode::Exclusive)).await;
    server.set(server.now().before(Duration::from_secs(3600)));
    server.now()
}

fn refresh(number: u16) -> Op {
    Op::Refresh {
        oldest: Some(owner(number)),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_keep_their_order_across_a_step_back() {
    let mut server = Server::start().await;
    let mut lock = Pair::new(&server, "order").await;
    step_back(&mut server, &mut lock).await;
    lock.run("living", refresh(2)).await;
    for next in 1..=2 {
        let handed = lock.execute("holder", release(next - 1)).await.handed;
        let owners: Vec<OwnerId> = handed.iter().map(|grant| grant.owner).collect();
        assert_eq!(owners, [owner(next)]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_that_is_silent_from_a_step_back_on_is_taken_for_dead() {
    for is_full in [false, true] {
        let mut server = Server::start().await;
        let mut lock = Pair::new(&server, "silent").await;
        let stepped = step_back(&mut server, &mut lock).await;
        if is_full {
            server.fill().await;
        }
        lock.run("living", refresh(2)).await;
        let at = |after| stepped.after(after + Duration::from_millis(1));
        server.set(at(DEAD_AFTER));
        lock.run("living", refresh(2)).await;
        let handed = lock.execute("holder", release(0)).await.handed;
        let owners: Vec<OwnerId> = handed.iter().map(|grant| grant.owner).collect();
        assert_eq!(owners, [owner(2)], "the silent coordinator's is skipped");

        server.set(at(PLACES_KEPT));
        let seen = lock.run("living", Op::view(100)).await;
        let Reply::Seen(view) = seen else {
            panic!("a view was answered with {seen:?}");
        };
        assert_eq!(view.waiters, [], "its place is given up");
    }
}
