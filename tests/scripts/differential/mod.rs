//! The memory store's rules against the Redis scripts: the same random histories give the same answers, and report the same to
//! followers of the lock. Redis goes by a clock that the tests move.

mod again;
mod compare;
mod crowd;
mod ended;
mod full;
mod history;
mod limits;
mod pair;
mod random;
mod readers;
mod resumed;
mod seen;
mod server;
mod stepping;
mod strangers;
mod stripped;
mod together;
mod told;
mod wake_ups;

use history::{Group, Kind, Met};
use server::Server;
use tokio::task::JoinSet;
use told::Ears;

/// Commands of each lock's history.
const LENGTH: usize = 600;
/// Groups of locks on each server.
const GROUPS: u64 = 2;
/// Commands that must have been compared.
const COMMANDS: usize = 50_000;
/// Commands that must have been told of.
const TOLD: usize = 10_000;

#[tokio::test(flavor = "multi_thread")]
async fn random_histories_agree() {
    let mut running = JoinSet::new();
    // Nobody follows anything, somebody follows everything, or each name.
    for (number, follows_names) in (0..).zip([None, Some(false), Some(true)]) {
        running.spawn(async move {
            let mut server = Server::start().await;
            let store = server.connect().await;
            let mut ears = match follows_names {
                Some(follows_names) => Some(Ears::of(&store, follows_names).await),
                None => None,
            };
            let mut met = Met::default();
            for seed in (1..=GROUPS).map(|group| 3 * group + number) {
                let ears = ears.as_mut();
                let group = Group::new(&mut server, &store, ears, Kind::Usual, seed);
                met.add(&group.await.run(LENGTH).await);
            }
            met
        });
    }
    let mut met = Met::default();
    for other in running.join_all().await {
        met.add(&other);
    }
    println!("{met:?}");
    assert_eq!(met.seen.missing(), [""; 0], "no history came by these");
    assert!(met.commands > COMMANDS, "only {} commands", met.commands);
    assert!(met.told > TOLD, "only {} were told of", met.told);
}
