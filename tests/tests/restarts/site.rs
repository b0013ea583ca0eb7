//! Coordinators on one Redis server, each of which comes back where it was.

use std::time::Duration;

use leasehold_client::{Client, ClientBuilder};
use leasehold_tests::{Coordinator, CoordinatorProcess, RedisServer};

/// How long a coordinator that goes away gives its clients.
pub(crate) const DRAIN: Duration = Duration::from_secs(10);

pub(crate) struct Site {
    redis: RedisServer,
    coordinators: Vec<CoordinatorProcess>,
}

impl Site {
    pub(crate) fn start(coordinators: usize) -> Self {
        let redis = RedisServer::start();
        let coordinators = (0..coordinators)
            .map(|_| start(&redis, "127.0.0.1:0"))
            .collect();
        Self {
            redis,
            coordinators,
        }
    }

    /// Where all of them are.
    pub(crate) fn endpoints(&self) -> String {
        let endpoints: Vec<_> = self
            .coordinators
            .iter()
            .map(CoordinatorProcess::endpoint)
            .collect();
        endpoints.join(",")
    }

    /// Where one of them is.
    pub(crate) fn endpoint(&self, at: usize) -> String {
        self.coordinators[at].endpoint()
    }

    /// Restarts one as an orchestrator does: SIGTERM, and when it has ended another one in its place.
    pub(crate) async fn restart(&mut self, at: usize) -> Duration {
        let old = &mut self.coordinators[at];
        let address = old.endpoint().trim_start_matches("http://").to_owned();
        let begun = std::time::Instant::now();
        old.terminate();
        let status = old.child().wait(DRAIN * 2).await;
        assert!(status.success(), "{status:?}\n{}", old.log());
        let drained = begun.elapsed();
        let redis = &self.redis;
        self.coordinators[at] = tokio::task::block_in_place(|| start(redis, &address));
        drained
    }

    /// Ends one with SIGKILL.
    pub(crate) fn kill(&mut self, at: usize) {
        self.coordinators[at].kill();
    }
}

fn start(redis: &RedisServer, listen: &str) -> CoordinatorProcess {
    let drain = format!("{}s", DRAIN.as_secs());
    Coordinator::process()
        .store(redis.url())
        .arguments(["--listen", listen, "--drain-timeout", &drain])
        .start()
}

/// Clients, each with a session and a connection of its own.
pub(crate) async fn clients(
    builder: &ClientBuilder,
    endpoints: &str,
    number: usize,
) -> Vec<Client> {
    let connecting = (0..number).map(|_| builder.clone().connect(endpoints));
    let connected = futures_util::future::join_all(connecting).await;
    connected.into_iter().map(Result::unwrap).collect()
}
