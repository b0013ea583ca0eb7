//! Coordinators on one Redis server, each of which comes back where it was.

use std::time::Duration;

use leasehold_proto::v1::{GetLockRequest, admin_service_client::AdminServiceClient};
use leasehold_tests::{Coordinator, CoordinatorProcess, FaultProxy, RedisServer, wait};

/// Time that a coordinator gives its clients to leave when it shuts down.
pub(crate) const DRAIN: Duration = Duration::from_secs(10);

pub(crate) struct Site {
    redis: RedisServer,
    coordinators: Vec<CoordinatorProcess>,
    drain: Duration,
}

impl Site {
    pub(crate) fn start(coordinators: usize) -> Self {
        Self::draining_for(coordinators, DRAIN)
    }

    /// Does the same with this drain time-out.
    pub(crate) fn draining_for(coordinators: usize, drain: Duration) -> Self {
        let redis = RedisServer::start();
        let coordinators = (0..coordinators)
            .map(|_| start(&redis, "127.0.0.1:0", drain))
            .collect();
        Self {
            redis,
            coordinators,
            drain,
        }
    }

    /// Starts one more coordinator, and a proxy between it and Redis.
    pub(crate) async fn behind_a_proxy(&self) -> (CoordinatorProcess, FaultProxy) {
        let proxy = FaultProxy::start(self.redis.address()).await;
        let url = self.redis.url_through(proxy.address());
        let start = || Coordinator::process().store(url).start();
        (tokio::task::block_in_place(start), proxy)
    }

    /// Returns the URL of one coordinator.
    pub(crate) fn endpoint(&self, at: usize) -> String {
        self.coordinators[at].endpoint()
    }

    /// Restarts one as an orchestrator does: SIGTERM, and when it has ended another one in its place.
    pub(crate) async fn restart(&mut self, at: usize) {
        let old = &mut self.coordinators[at];
        old.terminate();
        let status = old.child().wait(self.drain + DRAIN).await;
        assert!(status.success(), "{status:?}\n{}", old.log());
        self.start_again(at);
    }

    /// Starts one that has ended where it was.
    pub(crate) fn start_again(&mut self, at: usize) {
        let old = self.coordinators[at].endpoint();
        let address = old.trim_start_matches("http://");
        let (redis, drain) = (&self.redis, self.drain);
        let start = || start(redis, address, drain);
        self.coordinators[at] = tokio::task::block_in_place(start);
    }

    /// Waits until so many wait for a name.
    pub(crate) async fn until_waiting(&self, name: &str, number: u64) {
        let channel = self.coordinators[0].channel().await;
        wait::until("waiters to be in the queue", DRAIN, || async {
            let name = name.to_owned();
            let mut admin = AdminServiceClient::new(channel.clone());
            let asked = admin.get_lock(GetLockRequest { name });
            let lock = asked.await.unwrap().into_inner().lock.unwrap();
            if lock.waiter_count == number {
                Ok(())
            } else {
                Err(lock)
            }
        })
        .await;
    }

    /// Ends one with SIGKILL.
    pub(crate) fn kill(&mut self, at: usize) {
        self.coordinators[at].kill();
    }
}

fn start(redis: &RedisServer, listen: &str, drain: Duration) -> CoordinatorProcess {
    let drain = format!("{}ms", drain.as_millis());
    Coordinator::process()
        .store(redis.url())
        .arguments(["--listen", listen, "--drain-timeout", &drain])
        .start()
}
