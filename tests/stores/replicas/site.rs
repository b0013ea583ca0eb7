//! A master, two replicas, and coordinators that want some of them to acknowledge.

use std::time::Duration;

use leasehold_tests::{Coordinator, CoordinatorProcess, RawSession, Replicas};
use redis::aio::MultiplexedConnection;

/// Time within which replicas must acknowledge: the longest that is allowed.
pub(crate) const REPLICA_TIMEOUT: Duration = Duration::from_secs(1);
/// The TTL of sessions. Replicas must acknowledge within less than a sixth of it, after which heartbeats renew once more.
pub(crate) const TTL: Duration = Duration::from_secs(12);

pub(crate) struct Site {
    redis: Replicas,
    coordinators: Vec<CoordinatorProcess>,
}

impl Site {
    pub(crate) fn start(min_replicas: u32) -> Self {
        let redis = Replicas::start(2);
        let timeout = format!("{}ms", REPLICA_TIMEOUT.as_millis());
        let options = Coordinator::process()
            .store(redis.server(0).url())
            .arguments(["--min-replicas", &min_replicas.to_string()])
            .arguments(["--replica-timeout", &timeout]);
        let coordinators = (0..2).map(|_| options.clone().start()).collect();
        Self {
            redis,
            coordinators,
        }
    }

    /// Returns a session at a coordinator. Heartbeats are the test's own.
    pub(crate) async fn session(&self, at: usize) -> RawSession {
        RawSession::open(&self.coordinators[at].endpoint(), TTL).await
    }

    /// Stops a replica with SIGSTOP; the other one goes on.
    pub(crate) fn stop_a_replica(&self) {
        self.redis.server(1).stop();
    }

    pub(crate) fn let_it_go_on(&self) {
        self.redis.server(1).cont();
        self.redis.wait_acknowledging(0, 2);
    }

    /// Ends the `WAIT` of some connection to the master as its time-out would.
    ///
    /// # Errors
    ///
    /// The connections, if none of them waits.
    pub(crate) async fn unblock_a_wait(&self) -> Result<(), String> {
        let mut master = self.redis.server(0).async_connection().await;
        let clients: String = redis::cmd("CLIENT")
            .arg("LIST")
            .query_async(&mut master)
            .await
            .unwrap();
        let waiting = clients.lines().find(|line| line.contains(" cmd=wait "));
        let id = waiting.and_then(|line| line.split(' ').next()?.strip_prefix("id="));
        let Some(id) = id else {
            return Err(clients);
        };
        let mut unblock = redis::cmd("CLIENT");
        unblock.arg("UNBLOCK").arg(id).arg("TIMEOUT");
        let unblocked: u32 = unblock.query_async(&mut master).await.unwrap();
        if unblocked == 1 { Ok(()) } else { Err(clients) }
    }

    /// Ends the connections of coordinators to the master by which no `WAIT` is under way, but for those that listen. Returns
    /// how many there were.
    ///
    /// # Errors
    ///
    /// The connections, if there is no `WAIT`.
    pub(crate) async fn end_all_but_a_wait(&self) -> Result<usize, String> {
        let mut master = self.redis.server(0).async_connection().await;
        let clients = coordinators_clients(&mut master).await;
        let (waiting, others): (Vec<_>, Vec<_>) = clients
            .iter()
            .partition(|client| client.contains(" flags=b "));
        if waiting.is_empty() {
            return Err(clients.join("\n"));
        }
        for other in &others {
            let id = other
                .split(' ')
                .find_map(|part| part.strip_prefix("id="))
                .unwrap();
            let mut kill = redis::cmd("CLIENT");
            kill.arg("KILL").arg("ID").arg(id);
            let _: u32 = kill.query_async(&mut master).await.unwrap();
        }
        Ok(clients.len())
    }

    /// Returns how many connections coordinators have to the master, but for those that listen.
    pub(crate) async fn connections(&self) -> usize {
        let mut master = self.redis.server(0).async_connection().await;
        coordinators_clients(&mut master).await.len()
    }

    /// Returns the rest of a lock's TTL at the master; `None` if the lock is gone.
    pub(crate) async fn left_at_the_master(&self, name: &str) -> Option<Duration> {
        let mut master = self.redis.server(0).async_connection().await;
        let mut left = redis::cmd("PTTL");
        left.arg(format!("lock:{name}"));
        let left: i64 = left.query_async(&mut master).await.unwrap();
        u64::try_from(left).ok().map(Duration::from_millis)
    }
}

async fn coordinators_clients(master: &mut MultiplexedConnection) -> Vec<String> {
    let mut list = redis::cmd("CLIENT");
    list.arg("LIST").arg("TYPE").arg("NORMAL");
    let clients: String = list.query_async(master).await.unwrap();
    let ours = clients
        .lines()
        .filter(|client| client.contains(" name=leasehold "));
    ours.map(ToOwned::to_owned).collect()
}
