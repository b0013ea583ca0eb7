//! Driver of the detector of deadlocks ([`leasehold_core::deadlock::detector`]).
//!
//! A lock that is free costs nothing more because of it, and neither does a wait of an actor that holds nothing. While an actor
//! waits that holds something, the coordinators exchange such waits every 300 ms, and read the holders and waiters of the names
//! in question. Each coordinator reaches the same verdict, and ends its own waits.

use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use leasehold_core::{
    command::{Op, Reply},
    deadlock::detector::{Detector, Input, Output, Report},
    name::LockName,
    session::RegistryEvent,
    view::NameEdges,
};
use leasehold_store::clock;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::Coordinator;

/// Looks for deadlocks until it is stopped.
pub(super) async fn run(coordinator: Coordinator, stop: CancellationToken) {
    let detection = Box::pin(coordinator.detect_deadlocks());
    stop.run_until_cancelled(detection).await;
}

impl Coordinator {
    async fn detect_deadlocks(&self) {
        let mut detector = Detector::default();
        let mut input = Input::Ready(seed());
        loop {
            let coordinator = self.clone();
            // On a thread of its own, because it takes time in proportion to all waits.
            let handled = tokio::task::spawn_blocking(move || {
                let publication = |lot| coordinator.blocked().publication(lot);
                let output = detector.handle(input, clock::now(), publication);
                (detector, output)
            });
            let output;
            // After a panic, detection begins anew.
            (detector, output) = handled
                .await
                .unwrap_or_else(|_| (Detector::default(), Output::Report(Report::default())));
            input = match output {
                Output::Idle(time) => {
                    self.blocked().any().await;
                    sleep(time).await;
                    Input::Rested
                }
                Output::Rest(time) => {
                    sleep(time).await;
                    Input::Rested
                }
                Output::Exchange(mine) => {
                    Input::Exchanged(self.store().exchange(Arc::new(mine)).await.ok())
                }
                Output::Read(names) => Input::Read(self.read_edges(names).await),
                Output::Report(report) => {
                    self.take_note(report);
                    Input::Ready(seed())
                }
            };
        }
    }

    /// Reads the edges of these names. Leaves out those that could not be read.
    async fn read_edges(&self, names: Vec<LockName>) -> Vec<(LockName, NameEdges)> {
        let commands = names
            .iter()
            .map(|name| self.command(name.clone(), Op::Edges));
        let results = self.store().execute_all(commands.collect()).await;
        let read = names.into_iter().zip(results);
        read.filter_map(|(name, result)| match result.ok()?.executed.reply {
            Reply::Edges(edges) => Some((name, *edges)),
            _ => None,
        })
        .collect()
    }

    /// Ends the deadlocks whose victims wait here, and tells of them and of the bounds.
    fn take_note(&self, report: Report) {
        for deadlock in report.deadlocks {
            let victim = &deadlock.victim;
            let event = RegistryEvent::Deadlocked(Box::new(deadlock.clone()));
            if self.blocked().remove(victim) && self.registry().deliver(&victim.ticket, event) {
                self.metrics().deadlocks.inc();
                tracing::info!(%deadlock, "ended a deadlock");
            }
        }
        for (bound, _) in report.omitted.each() {
            self.metrics().count_deadlock_bound(bound);
        }
        if report.warns {
            let omitted = report.omitted;
            tracing::warn!(
                session = omitted.session,
                caller = omitted.caller,
                coordinator = omitted.coordinator,
                names = omitted.names,
                edges = omitted.edges,
                time = omitted.time,
                "deadlock detection left out actors or names because of its bounds; deadlocks among the clients with the most waits are found later"
            );
        }
    }
}

/// Returns a secret random number.
fn seed() -> u64 {
    RandomState::new().hash_one(())
}
