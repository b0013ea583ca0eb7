//! Sets of names, each all or nothing: no deadlock among them.

use leasehold_tests::Site;
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use rand::Rng;
use tokio::{task::JoinSet, time::Instant};

use crate::deadlocks::client::several;

use super::{LONGEST_WAIT, Member, Served, gather, length, summary};

const NAMES: usize = 400;
const LONGEST_HOLD: Duration = Duration::from_millis(30);
/// Now and then somebody holds its locks for so long that those who wait for them, and those who wait for these, are looked
/// at by the detector.
const LONG_HOLD: Duration = Duration::from_millis(1_500);
const LONG_HOLDS: (u32, u32) = (1, 60);
/// A wait of an actor that holds something is looked at twice in this time.
const LOOKED_AT: Duration = Duration::from_secs(1);
const FREE: usize = usize::MAX;

/// The holder of each name, by the clients' own account.
type Holders = [AtomicUsize];

async fn take_sets(mut member: Member, holders: Arc<Holders>, until: Instant) -> Served {
    let mut served = Served::default();
    while member.rests(until, &served).await {
        let chosen = member.choose(1..=5, NAMES);
        let names: Vec<_> = chosen.iter().map(|name| format!("sets/{name}")).collect();
        // Nobody is anybody twice: it holds nothing else.
        let actor = 1 + served.turns;
        let acquire = several(actor, names.iter().map(String::as_str));
        let asked = Instant::now();
        let id = member.client.ask_for(acquire).await;
        let locks = member.client.granted_all(id, LONGEST_WAIT).await;
        served.waits.push(asked.elapsed());
        let granted = locks.iter().map(|lock| &lock.name);
        assert!(granted.eq(&names), "in the order asked for");
        for name in &chosen {
            let before = holders[*name].swap(member.number, Ordering::Relaxed);
            assert_eq!(before, FREE, "granted twice");
        }
        let is_long = member.random.random_ratio(LONG_HOLDS.0, LONG_HOLDS.1);
        member
            .pause(if is_long { LONG_HOLD } else { LONGEST_HOLD })
            .await;
        for name in &chosen {
            let before = holders[*name].swap(FREE, Ordering::Relaxed);
            assert_eq!(before, member.number, "held by another");
        }
        member.client.release(&locks).await;
        served.turns += 1;
    }
    member.client.close().await;
    served
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_sessions_that_take_sets_of_names_all_get_on_and_nobody_is_accused() {
    let site = Site::redis(2).await;
    let members = gather(&site).await;
    let holders: Arc<Holders> = (0..NAMES).map(|_| AtomicUsize::new(FREE)).collect();
    let until = Instant::now() + length();
    let mut tasks = JoinSet::new();
    for member in members {
        tasks.spawn(take_sets(member, Arc::clone(&holders), until));
    }
    let served = tasks.join_all().await;
    let waits = summary("sets of names", &served);
    assert!(waits.max() > LOOKED_AT, "nobody waited for long: {waits}");
    assert_eq!(site.sum("leasehold_deadlocks_total").await, 0.0);
    site.nothing_is_left().await;
}
