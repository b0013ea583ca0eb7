//! Many watchers: a thousand of each kind at one coordinator.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use leasehold_proto::v1::{
    LockEventKind, ObserveRequest, election_service_client::ElectionServiceClient,
    watch_locks_response::Response,
};
use leasehold_tests::{
    Site,
    raw::{exclusive, with_value},
    report,
    usage::resident,
    wait,
};
use tokio::task::JoinSet;
use tonic::transport::Channel;

use crate::watching::watch::Watch;

/// Of each kind.
const CROWD: usize = 1000;
/// Streams of one connection.
const TOGETHER: usize = 100;
/// Number of changes.
const CHANGES: usize = 20;
/// Within this, a change reaches the last of them. A build without optimisations takes some ten times as long for each
/// message: its figure says little, and only what is broken is to be found by it.
const BOUND: Duration = match cfg!(debug_assertions) {
    true => Duration::from_millis(1000),
    false => Duration::from_millis(100),
};

/// A change: the lock with this token is granted, or it is released.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Change {
    token: i64,
    is_over: bool,
}

/// The newest change, the number of watchers that have received it, and the time at which the last of them did.
#[derive(Debug, Default)]
struct Heard(Mutex<(Change, usize, Option<Instant>)>);

impl Heard {
    fn hear(&self, change: Change) {
        let mut heard = self.0.lock().unwrap();
        if change > heard.0 {
            *heard = (change, 0, None);
        }
        if change == heard.0 {
            *heard = (change, heard.1 + 1, Some(Instant::now()));
        }
    }

    /// Waits until all watchers have received this change, and returns the time at which the last of them did.
    async fn all(&self, change: Change) -> Instant {
        wait::until("all to hear of it", Duration::from_secs(10), || async {
            let heard = *self.0.lock().unwrap();
            match heard {
                (newest, CROWD, Some(at)) if newest == change => Ok(at),
                other => Err(other),
            }
        })
        .await
    }
}

async fn observe(channel: Channel, heard: Arc<Heard>) {
    let request = ObserveRequest {
        election: "crowd/leader".into(),
    };
    let observing = ElectionServiceClient::new(channel).observe(request).await;
    let mut observing = observing.unwrap().into_inner();
    let mut token = 0;
    while let Ok(Some(observed)) = observing.message().await {
        let is_over = observed.leader.is_none();
        token = observed.leader.map_or(token, |leader| leader.fencing_token);
        if token > 0 {
            heard.hear(Change { token, is_over });
        }
    }
}

async fn watch(channel: Channel, heard: Arc<Heard>) {
    let mut watch = Watch::stream(channel, "crowd/").await;
    loop {
        match watch.within(Duration::from_secs(60)).await {
            Some(Response::Event(event)) => heard.hear(Change {
                token: event.fencing_token,
                is_over: event.kind() == LockEventKind::Released,
            }),
            Some(Response::Gap(gap)) => panic!("{gap:?}"),
            Some(_) => {}
            None => return,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_reaches_the_last_of_a_thousand_observers_and_a_thousand_watchers() {
    let site = Site::redis(2).await;
    let process = site.at(1).id();
    let heard = [Arc::new(Heard::default()), Arc::new(Heard::default())];
    let mut crowd = JoinSet::new();
    for _ in 0..CROWD / TOGETHER {
        let channel = site.at(1).channel().await;
        for _ in 0..TOGETHER {
            crowd.spawn(observe(channel.clone(), Arc::clone(&heard[0])));
            crowd.spawn(watch(channel.clone(), Arc::clone(&heard[1])));
        }
    }
    let metrics = async || site.at(1).metrics().await;
    wait::until(
        "all of them to be there",
        Duration::from_secs(30),
        || async {
            let metrics = metrics().await;
            let there = (
                metrics.sum("leasehold_observers"),
                metrics.sum("leasehold_watchers"),
            );
            if there == (CROWD as f64, CROWD as f64) {
                Ok(())
            } else {
                Err(there)
            }
        },
    )
    .await;
    let before = resident(process);
    // The changes are made at the other coordinator.
    let mut session = site.session(0).await;
    let value = "x".repeat(100);
    let mut took = [Vec::new(), Vec::new()];
    for change in 0..=CHANGES {
        let mut asked = Instant::now();
        let acquire = with_value(&value, exclusive("crowd/leader"));
        let held = session.take_one(acquire).await;
        for is_over in [false, true] {
            if is_over {
                asked = Instant::now();
                assert!(session.release(&held).await);
            }
            let token = held.fencing_token;
            for (heard, took) in heard.iter().zip(&mut took) {
                let last = heard.all(Change { token, is_over }).await;
                // The first finds them still at their beginnings.
                if change > 0 {
                    took.push(last - asked);
                }
            }
        }
    }
    let grown = resident(process).saturating_sub(before);
    for (kind, took) in ["observers", "watchers"].into_iter().zip(&mut took) {
        took.sort_unstable();
        report(format!(
            "a change reached the last of {CROWD} {kind} after {:?} at p50, {:?} at most",
            took[CHANGES],
            took[2 * CHANGES - 1]
        ));
        assert!(took[2 * CHANGES - 1] <= BOUND, "{took:?}");
    }
    report(format!(
        "the coordinator's memory grew by {} KiB meanwhile",
        grown / 1024
    ));
    assert!(grown < 64 << 20, "{grown}");
    assert_eq!(metrics().await.sum("leasehold_watch_gaps_total"), 0.0);
    crowd.shutdown().await;
}
