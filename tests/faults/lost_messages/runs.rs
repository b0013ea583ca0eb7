//! Many histories, a few at a time.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use tokio::task::JoinSet;

use crate::lost_messages::{
    history::{Played, play},
    site::Site,
    trouble::Trouble,
};

/// Histories at a time, each on a site of its own. They mostly wait.
const SITES: usize = 6;

/// Tells on a panic what was going on.
struct Doing(Trouble);

impl Drop for Doing {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("while playing {:?}", self.0);
        }
    }
}

/// Plays the history once for each trouble.
pub(crate) async fn play_all(troubles: Vec<Trouble>) -> Vec<Played> {
    play_on(SITES.min(troubles.len()), troubles).await
}

/// Does the same one after the other on one site.
pub(crate) async fn play_in_turn(troubles: Vec<Trouble>) -> Vec<Played> {
    play_on(1, troubles).await
}

async fn play_on(sites: usize, troubles: Vec<Trouble>) -> Vec<Played> {
    let expected = troubles.len();
    let left: VecDeque<_> = troubles.into_iter().enumerate().collect();
    let left = Arc::new(Mutex::new(left));
    let mut workers = JoinSet::new();
    for _ in 0..sites {
        let left = Arc::clone(&left);
        workers.spawn(async move {
            let site = Site::start(2).await;
            let mut played = Vec::new();
            loop {
                let next = left.lock().unwrap().pop_front();
                let Some((number, trouble)) = next else { break };
                let _doing = Doing(trouble);
                played.push(play(&site, trouble, number).await);
            }
            site.end().await;
            played
        });
    }
    let played: Vec<_> = workers.join_all().await.into_iter().flatten().collect();
    assert_eq!(played.len(), expected);
    played
}
