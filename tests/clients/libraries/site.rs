//! Real back end: a Redis server, and coordinators on it.

use std::time::Duration;

use anyhow::Context;
use leasehold_client::{Admin, LockView};
use leasehold_tests::{
    Coordinator, CoordinatorProcess, RawSession, RedisServer, coordinator::CoordinatorOptions,
    ports::free_port,
};

use crate::driver::{PROMPT, now};

/// A Redis server, and coordinators.
pub(crate) struct Site {
    pub(crate) coordinators: Vec<CoordinatorProcess>,
    options: Vec<CoordinatorOptions>,
    pub(crate) redis: RedisServer,
}

impl Site {
    /// Starts a server with so many coordinators.
    pub(crate) async fn start(coordinators: usize) -> Self {
        Self::start_with(coordinators, &[]).await
    }

    /// Starts a server with so many coordinators, which get further arguments.
    pub(crate) async fn start_with(coordinators: usize, arguments: &[&str]) -> Self {
        let arguments: Vec<String> = arguments.iter().map(|&word| word.to_owned()).collect();
        blocking(move || {
            let redis = RedisServer::start();
            let options = (0..coordinators).map(|_| {
                // A port of its own, so that it can be started again on it.
                let listen = format!("127.0.0.1:{}", free_port());
                Coordinator::process()
                    .store(redis.url())
                    .arguments(["--listen".to_owned(), listen])
                    .arguments(arguments.clone())
            });
            let options: Vec<_> = options.collect();
            let coordinators = options.iter().cloned().map(CoordinatorOptions::start);
            Self {
                coordinators: coordinators.collect(),
                options,
                redis,
            }
        })
        .await
    }

    /// Returns the endpoint of a coordinator.
    pub(crate) fn endpoint(&self, place: usize) -> String {
        self.coordinators[place].endpoint()
    }

    /// Returns the endpoints of all coordinators.
    pub(crate) fn endpoints(&self) -> Vec<String> {
        self.coordinators
            .iter()
            .map(CoordinatorProcess::endpoint)
            .collect()
    }

    /// Starts a coordinator again that has ended, on the same port.
    pub(crate) async fn restart(&mut self, place: usize) {
        let options = self.options[place].clone();
        self.coordinators[place] = blocking(move || options.start()).await;
    }

    /// Returns the administration calls of a coordinator.
    pub(crate) fn admin(&self, place: usize) -> Admin {
        Admin::connect(self.endpoint(place)).expect("the endpoint is well-formed")
    }

    /// Returns the view of a lock at a coordinator.
    pub(crate) async fn lock(&self, place: usize, name: &str) -> anyhow::Result<LockView> {
        let view = self.admin(place).get_lock(name).await;
        view.context("the coordinator does not show the lock")
    }

    /// Waits until the view of a lock is as `wanted` says.
    pub(crate) async fn until(
        &self,
        place: usize,
        name: &str,
        what: &str,
        wanted: impl Fn(&LockView) -> bool,
    ) -> anyhow::Result<LockView> {
        let admin = self.admin(place);
        let end = now() + u64::try_from(PROMPT.as_nanos())?;
        loop {
            let view = admin.get_lock(name).await?;
            if wanted(&view) {
                return Ok(view);
            }
            anyhow::ensure!(
                now() < end,
                "lock {name:?}: {what} within {PROMPT:?}; it is {view:?}"
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Returns the coordinator that has the session of this client name.
    pub(crate) async fn place_of(&self, client_name: &str) -> anyhow::Result<usize> {
        for place in 0..self.coordinators.len() {
            let sessions = self.admin(place).list_sessions().await?;
            if sessions
                .iter()
                .any(|session| session.client_name == client_name)
            {
                return Ok(place);
            }
        }
        anyhow::bail!("no coordinator has the session of {client_name:?}")
    }

    /// Opens a session at a coordinator, which keeps itself alive.
    pub(crate) async fn rival(&self, place: usize, ttl: Duration) -> RawSession {
        let mut rival = RawSession::open(&self.endpoint(place), ttl).await;
        rival.keep_alive(ttl / 6);
        rival
    }
}

/// Runs what blocks on another thread, so that proxies and sessions of this one go on.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
