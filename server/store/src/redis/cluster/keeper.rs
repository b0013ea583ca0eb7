//! Task that keeps the slot map true, and reports whether the cluster can be used.

use std::{
    sync::{Arc, Weak, atomic::Ordering},
    time::Duration,
};

use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::{
    super::{
        address::Address,
        status::{DownCause, Fault, LinkStatus, publish},
    },
    ask::{LIMIT, ask_node, ask_server},
    node::Node,
    router::Router,
    view::View,
};

/// Interval of routine questions to nodes.
const INTERVAL: Duration = Duration::from_secs(1);
/// Shortest pause between two rounds of questions.
const PAUSE: Duration = Duration::from_millis(100);
/// Most masters that are asked in a round, at random.
const ASKED: usize = 5;
/// Extra time for the others when most have answered.
const LAST_WORDS: Duration = Duration::from_millis(50);
/// Shortest interval between notices that slots have moved: each makes the layers above ask again for all that they have.
const SAY_EVERY: Duration = Duration::from_secs(1);

/// State of the keeper.
#[derive(Default)]
struct Keeper {
    attempt: usize,
    /// Other nodes that can be asked.
    replicas: Vec<Address>,
    /// The reason for which the slot map is not known, if so.
    fault: Option<Fault>,
    is_known: bool,
    told: Told,
}

/// Last published status.
#[derive(Default)]
struct Told {
    ups: u64,
    moves: u64,
    epoch: u64,
    at: Option<Instant>,
}

/// Runs until the router is gone.
pub(in crate::redis) async fn run(router: Weak<Router>) {
    let mut keeper = Keeper::default();
    loop {
        let Some(router) = router.upgrade() else {
            return;
        };
        let begun = Instant::now();
        keeper.ask(&router).await;
        keeper.tell(&router);
        sleep_until(begun + PAUSE).await;
        // Publishes news first, because asking the nodes again may take longer.
        keeper.tell(&router);
        let next = sleep_until(begun + if keeper.is_known { INTERVAL } else { PAUSE * 2 });
        tokio::select! {
            () = router.stale.notified() => {}
            () = next => {}
        }
        keeper.tell(&router);
    }
}

impl Keeper {
    async fn ask(&mut self, router: &Arc<Router>) {
        self.attempt = self.attempt.wrapping_add(1);
        let mut masters = router.masters();
        let known = masters.len();
        fastrand::shuffle(&mut masters);
        let up = masters.into_iter().filter(|node| node.status().is_up());
        let asked: Vec<Arc<Node>> = up.take(ASKED).collect();
        let majority = known.min(ASKED) / 2 + 1;

        let from_masters = asked
            .into_iter()
            .map(|node| async move { ask_node(&node).await }.boxed());
        let (mut views, mut faults) = gather(from_masters.collect(), majority).await;
        let is_majority = known > 0 && views.len() >= majority;
        if !is_majority {
            let (others, more) = self.ask_others(router).await;
            views.extend(others);
            faults.extend(more);
        }
        self.take(router, &views, faults, is_majority || known == 0);
    }

    /// Asks the seeds, and nodes that were replicas.
    async fn ask_others(&self, router: &Arc<Router>) -> (Vec<View>, Vec<Fault>) {
        let mut targets = router.url.seeds.to_vec();
        let mut replicas = self.replicas.clone();
        fastrand::shuffle(&mut replicas);
        targets.extend(
            replicas
                .iter()
                .take(ASKED)
                .filter_map(|replica| router.target(replica)),
        );
        let attempt = self.attempt;
        let asked = targets.into_iter().map(|target| {
            async move {
                let answer = ask_server(&target, LIMIT, attempt).await;
                answer.map(|answer| answer.view)
            }
            .boxed()
        });
        let asked: Vec<_> = asked.collect();
        let enough = asked.len() / 2 + 1;
        gather(asked, enough).await
    }

    fn take(&mut self, router: &Router, views: &[View], faults: Vec<Fault>, is_majority: bool) {
        // A node that has just been started alone, and knows no other, is no cluster.
        if views.iter().all(|view| view.ranges.is_empty()) {
            if !self.is_known {
                self.fault = faults.into_iter().next().or_else(|| {
                    let reason = "no node that was asked knows of a Redis Cluster that serves hash slots; create it, or \
                                  check the store URL";
                    Some(Fault::new(DownCause::Rejected, reason))
                });
            }
            return;
        }
        let replicas = views.iter().flat_map(|view| &view.replicas);
        self.replicas = replicas.cloned().collect();
        self.replicas.sort_unstable();
        self.replicas.dedup();
        self.is_known = true;
        self.fault = None;
        router.learn(views, is_majority);
    }

    /// Publishes whether the cluster can be used, if that has changed.
    fn tell(&mut self, router: &Router) {
        let masters = router.masters();
        let ups = router.ups.load(Ordering::Relaxed);
        let moves = *router.moves.borrow();
        let is_due = self.told.at.is_none_or(|at| at.elapsed() >= SAY_EVERY);
        let status = if masters.iter().any(|node| node.is_ready()) {
            if ups != self.told.ups || (moves != self.told.moves && is_due) {
                self.told = Told {
                    ups,
                    moves,
                    epoch: self.told.epoch + 1,
                    at: Some(Instant::now()),
                };
            }
            LinkStatus::Up {
                epoch: self.told.epoch,
            }
        } else {
            self.down(&masters)
        };
        publish(&router.status, status, "the Redis Cluster");
    }

    fn down(&self, masters: &[Arc<Node>]) -> LinkStatus {
        if let Some(fault) = &self.fault {
            return fault.clone().into();
        }
        let of_node = masters.iter().find_map(|node| match node.status() {
            LinkStatus::Down { cause, reason } => Some((cause, reason)),
            LinkStatus::Up { .. } => None,
        });
        let fault = match of_node {
            Some((cause, reason)) => {
                let reason = format!("no master of the Redis Cluster can be reached: {reason}");
                Fault::new(cause, reason)
            }
            None => Fault::new(
                DownCause::Connecting,
                "still connecting to the Redis Cluster",
            ),
        };
        fault.into()
    }
}

/// Waits for answers: for all, or until enough have come and the others had a moment more.
async fn gather(
    asked: Vec<BoxFuture<'_, Result<View, Fault>>>,
    enough: usize,
) -> (Vec<View>, Vec<Fault>) {
    let mut asked: FuturesUnordered<_> = asked.into_iter().collect();
    let (mut views, mut faults) = (Vec::new(), Vec::new());
    let mut until = Instant::now() + LIMIT + LIMIT;
    while let Ok(Some(answer)) = timeout_at(until, asked.next()).await {
        match answer {
            Ok(view) => views.push(view),
            Err(fault) => faults.push(fault),
        }
        if views.len() >= enough {
            until = until.min(Instant::now() + LAST_WORDS);
        }
    }
    (views, faults)
}
