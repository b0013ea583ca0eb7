//! Many histories, a few at a time.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex},
    time::Duration,
};

use leasehold_tests::report;
use tokio::task::JoinSet;

use crate::lost_messages::{
    history::{Cast, Played, places, play},
    site::Site,
    trouble::Trouble,
};

/// Histories at a time, each on a site of its own. They mostly wait.
const SITES: usize = 6;

/// Tells on a panic what was going on.
struct Doing(String);

impl Drop for Doing {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("while playing {}", self.0);
        }
    }
}

/// Tells the longest wait for a grant, for each kind of trouble.
pub(crate) fn summarise(cast: Cast, played: &[(Trouble, Played)]) {
    let mut kinds: BTreeMap<String, (u64, Duration)> = BTreeMap::new();
    for (trouble, played) in played {
        let (times, worst) = kinds.entry(trouble.kind()).or_default();
        *times += 1;
        *worst = played.worst.max(*worst);
    }
    let coordinators = places(cast);
    for (kind, (times, worst)) in kinds {
        report(format!(
            "{coordinators} coordinators, {times} × {kind}: a grant after {worst:?} at most"
        ));
    }
    let passed_over: usize = played.iter().map(|(_, played)| played.passed_over).sum();
    if passed_over > 0 {
        report(format!(
            "{coordinators} coordinators: {passed_over} passed over while their coordinator was silent"
        ));
    }
}

/// Plays the history once for each trouble.
pub(crate) async fn play_all(cast: Cast, troubles: Vec<Trouble>) -> Vec<(Trouble, Played)> {
    play_on(SITES.min(troubles.len()), cast, troubles).await
}

/// Does the same one after the other on one site.
pub(crate) async fn play_in_turn(cast: Cast, troubles: Vec<Trouble>) -> Vec<(Trouble, Played)> {
    play_on(1, cast, troubles).await
}

async fn play_on(sites: usize, cast: Cast, troubles: Vec<Trouble>) -> Vec<(Trouble, Played)> {
    let expected = troubles.len();
    let left: VecDeque<_> = troubles.into_iter().enumerate().collect();
    let left = Arc::new(Mutex::new(left));
    let mut workers = JoinSet::new();
    for _ in 0..sites {
        let left = Arc::clone(&left);
        workers.spawn(async move {
            let site = Site::start(places(cast)).await;
            let mut played = Vec::new();
            loop {
                let next = left.lock().unwrap().pop_front();
                let Some((number, trouble)) = next else { break };
                let _doing = Doing(format!("{trouble:?} with {} coordinators", places(cast)));
                played.push((trouble, play(&site, cast, trouble, number).await));
            }
            site.end().await;
            played
        });
    }
    let played: Vec<_> = workers.join_all().await.into_iter().flatten().collect();
    assert_eq!(played.len(), expected);
    played
}
