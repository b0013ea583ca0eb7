//! Acquires and releases without end, each checked against what Redis has.

use std::time::{Duration, Instant};

use leasehold_proto::v1::{
    GetLockRequest, GrantedLock, SessionFailure, admin_service_client::AdminServiceClient,
    session_response::Response,
};
use leasehold_tests::{Coordinator, CoordinatorProcess, RawSession, RedisServer};
use redis::aio::MultiplexedConnection;
use tokio::{sync::watch, task::JoinSet};
use tonic::transport::Channel;

const TASKS: u32 = 16;
const LIMIT: Duration = Duration::from_secs(10);

/// An acquire of a free name, and its release if it was granted.
pub(crate) struct Operation {
    pub(crate) began: Instant,
    pub(crate) ended: Instant,
    pub(crate) failure: Option<SessionFailure>,
}

/// Sessions that take and release one free name after the other.
pub(crate) struct Load {
    stop: watch::Sender<bool>,
    tasks: JoinSet<Vec<Operation>>,
    _observer: CoordinatorProcess,
}

impl Load {
    /// Starts sixteen of them.
    pub(crate) async fn start(
        coordinator: &CoordinatorProcess,
        redis: &RedisServer,
        ttl: Duration,
    ) -> Self {
        // Another coordinator, which reaches Redis without detours, is asked what is really held.
        let observer = Coordinator::process().store(redis.url()).start();
        let admin = AdminServiceClient::new(observer.channel().await);
        let stop = watch::Sender::new(false);
        let mut tasks = JoinSet::new();
        for task in 0..TASKS {
            let mut session = RawSession::open(&coordinator.endpoint(), ttl).await;
            session.keep_alive(ttl / 6);
            let worker = Worker {
                session,
                redis: redis.async_connection().await,
                admin: admin.clone(),
                task,
            };
            tasks.spawn(worker.run(stop.subscribe()));
        }
        Self {
            stop,
            tasks,
            _observer: observer,
        }
    }

    /// Ends them, with their sessions, and returns what they did.
    pub(crate) async fn stop(self) -> Vec<Operation> {
        self.stop.send_replace(true);
        self.tasks.join_all().await.into_iter().flatten().collect()
    }
}

struct Worker {
    session: RawSession,
    redis: MultiplexedConnection,
    admin: AdminServiceClient<Channel>,
    task: u32,
}

impl Worker {
    async fn run(mut self, stop: watch::Receiver<bool>) -> Vec<Operation> {
        let mut operations = Vec::new();
        while !*stop.borrow() {
            let began = Instant::now();
            let name = format!("load/{}/{}", self.task, operations.len());
            let done = self.acquire_and_release(&name).await;
            let ended = Instant::now();
            let failure = match done {
                Ok(()) => None,
                Err(failure) => {
                    // As a caller does that backs off.
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    Some(failure)
                }
            };
            operations.push(Operation {
                began,
                ended,
                failure,
            });
        }
        let unasked = self.session.unread_unasked();
        assert!(
            unasked.is_empty(),
            "something was said to be lost: {unasked:?}"
        );
        operations
    }

    async fn acquire_and_release(&mut self, name: &str) -> Result<(), SessionFailure> {
        let id = self.session.ask(name, Some(Duration::ZERO)).await;
        let lock = match self.session.answer(id, LIMIT).await {
            Response::Granted(granted) => {
                let [lock] = <[GrantedLock; 1]>::try_from(granted.locks).expect("one lock");
                lock
            }
            Response::Error(failure) => return Err(failure),
            other => panic!("a free name was answered by {other:?}"),
        };
        assert_eq!(lock.name, name);
        // Whose reply it was shows in the token.
        assert_eq!(
            self.held_token(name).await,
            Some(lock.fencing_token),
            "{name}"
        );
        let id = self.session.ask_release(&lock).await;
        match self.session.answer(id, LIMIT).await {
            Response::Released(_) => {}
            Response::Error(failure) => return Err(failure),
            other => panic!("a release was answered by {other:?}"),
        }
        assert!(
            !self.is_locked(name).await,
            "{name} was released, but not in Redis"
        );
        Ok(())
    }

    async fn held_token(&mut self, name: &str) -> Option<i64> {
        let name = name.to_owned();
        let response = self.admin.get_lock(GetLockRequest { name }).await.unwrap();
        let lock = response.into_inner().lock?;
        Some(lock.holders.first()?.fencing_token)
    }

    async fn is_locked(&mut self, name: &str) -> bool {
        let mut exists = redis::cmd("EXISTS");
        exists.arg(format!("lock:{name}"));
        exists.query_async(&mut self.redis).await.unwrap()
    }
}
