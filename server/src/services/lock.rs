//! `LockService`: the lease stream and the unary calls.

use std::{
    sync::atomic::{AtomicU32, AtomicU64},
    time::{Duration, SystemTime},
};

use leasehold_core::{
    command::{Acquire, Op, Reply},
    id::{Actor, OwnerId, SessionId},
    lease::{Lease, drift_margin, heartbeat_interval},
    time::Moment,
};
use leasehold_proto::v1::{
    AcquireOutcome, AcquireRequest, AcquireResponse, ReleaseRequest, ReleaseResponse, RenewRequest,
    RenewResponse, SessionOpen, SessionOpened, SessionRequest, SessionResponse,
    lock_service_server::LockService, session_request::Request as Ask,
    session_response::Response as Say,
};
use leasehold_store::clock;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::task::TaskTracker;
use tonic::{Request, Response, Status, Streaming};
use uuid::Uuid;

use crate::{
    convert,
    coordinator::{
        Coordinator,
        acquire::{Acquired, Wait},
    },
    listener::ConnectionHandle,
    session::{
        MAX_IN_FLIGHT, MAX_PENDING_ACKS,
        outbox::{Outbox, Reading},
        sessions::{SessionInfo, Sessions},
        task::{self, Opened, Shutdown},
    },
    status::{Reason, Refusal},
};

/// What the service needs beside the coordinator.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Most sessions at a time.
    pub sessions: usize,
    /// Most holds and waiting acquires of a session.
    pub locks_per_session: usize,
    /// Answers that wait for a session's client to read before they count as a backlog.
    pub outbound_queue: usize,
    /// How long a client may leave a backlog of answers unread without taking any of it.
    pub reading_timeout: Duration,
    /// How long a new stream may take to say `open`.
    pub open_timeout: Duration,
}

/// The service.
#[derive(Clone, Debug)]
pub struct Locks {
    /// What all calls share.
    pub coordinator: Coordinator,
    /// The sessions of this coordinator.
    pub sessions: Sessions,
    /// The tasks of those sessions.
    pub tasks: TaskTracker,
    /// When to stop.
    pub shutdown: Shutdown,
    /// Bounds.
    pub limits: Limits,
}

#[tonic::async_trait]
impl LockService for Locks {
    type SessionStream = ReceiverStream<Result<SessionResponse, Status>>;

    async fn session(
        &self,
        request: Request<Streaming<SessionRequest>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let Some(connection) = request.extensions().get::<ConnectionHandle>().cloned() else {
            return Err(Status::internal(
                "the connection of this stream is not known",
            ));
        };
        if self.shutdown.draining.is_cancelled() {
            return Err(draining().into());
        }
        let (outbox, answers) = Outbox::new(
            Reading {
                queue: self.limits.outbound_queue,
                // Each acquire may be queued and then answered, each hold be lost or released.
                owed: 2 * self.limits.locks_per_session + MAX_IN_FLIGHT + MAX_PENDING_ACKS,
                patience: self.limits.reading_timeout,
            },
            connection.clone(),
            self.coordinator.metrics().clone(),
        );
        // The stream's headers are sent at once; what is wrong with the `open` ends the stream.
        self.tasks.spawn(
            self.clone()
                .run_session(request.into_inner(), connection, outbox),
        );
        Ok(Response::new(ReceiverStream::new(answers)))
    }

    async fn acquire(
        &self,
        request: Request<AcquireRequest>,
    ) -> Result<Response<AcquireResponse>, Status> {
        let request = request.into_inner();
        let bounds = self.coordinator.bounds();
        let name = convert::lock_name("name", &request.name, self.coordinator.store())?;
        let wait = convert::wait("wait", request.wait, Wait::No, self.coordinator.max_wait())?;
        let mode = convert::mode("", request.mode, request.permits, request.limit)?;
        let acquire = Acquire {
            owner: OwnerId::from_bytes(Uuid::new_v4().into_bytes()),
            session: None,
            actor: Actor::NOBODY,
            mode,
            client_name: convert::client_name("client_name", &request.client_name)?,
            value: convert::value("value", &request.value)?,
            ttl: convert::ttl("ttl", request.ttl, bounds)?,
            lock_delay: convert::lock_delay("lock_delay", request.lock_delay, bounds)?,
            wait: wait != Wait::No,
        };
        let ttl = acquire.ttl;
        let acquired = tokio::select! {
            biased;
            acquired = self.coordinator.acquire(name, acquire, wait, false, |_| {}) => {
                acquired.map_err(Refusal::from)?
            }
            () = self.shutdown.stopping.cancelled() => return Err(stopping().into()),
        };
        let (outcome, holder) = match acquired {
            Acquired::Granted(hold) => {
                let response = AcquireResponse {
                    outcome: AcquireOutcome::Granted.into(),
                    owner_id: hold.owner().as_bytes().to_vec(),
                    fencing_token: hold.token().get(),
                    ttl: Some(convert::wire_duration(left(hold.stands_until(), ttl))),
                    holder: None,
                };
                // From here on the caller renews it.
                hold.forget();
                return Ok(Response::new(response));
            }
            Acquired::Busy(holder) => (AcquireOutcome::Busy, holder),
            Acquired::TimedOut(holder) => (AcquireOutcome::TimedOut, holder),
            Acquired::Cancelled => (AcquireOutcome::Cancelled, None),
            Acquired::OtherLimit { name, limit } => {
                return Err(Refusal::other_limit(&name, limit).into());
            }
            // Nobody's waits are never accused.
            Acquired::Deadlocked(why) => return Err(Refusal::new(Reason::Deadlock, why).into()),
        };
        Ok(Response::new(AcquireResponse {
            outcome: outcome.into(),
            holder: holder.as_ref().map(convert::holder),
            ..Default::default()
        }))
    }

    async fn renew(
        &self,
        request: Request<RenewRequest>,
    ) -> Result<Response<RenewResponse>, Status> {
        let request = request.into_inner();
        let name = convert::lock_name("name", &request.name, self.coordinator.store())?;
        let owner = convert::owner_id("owner_id", &request.owner_id)?;
        let ttl = convert::ttl("ttl", request.ttl, self.coordinator.bounds())?;
        let op = Op::Renew { owner, ttl };
        let stamped = self
            .coordinator
            .execute(&name, op)
            .await
            .map_err(Refusal::from)?;
        let renewed = stamped.executed.reply == Reply::Renewed;
        let left = renewed.then(|| convert::wire_duration(left(stamped.sent_at.after(ttl), ttl)));
        Ok(Response::new(RenewResponse { renewed, ttl: left }))
    }

    async fn release(
        &self,
        request: Request<ReleaseRequest>,
    ) -> Result<Response<ReleaseResponse>, Status> {
        let request = request.into_inner();
        let name = convert::lock_name("name", &request.name, self.coordinator.store())?;
        let owner = convert::owner_id("owner_id", &request.owner_id)?;
        let released = self
            .coordinator
            .release(&name, owner)
            .await
            .map_err(Refusal::from)?;
        Ok(Response::new(ReleaseResponse { released }))
    }
}

impl Locks {
    async fn run_session(
        self,
        mut incoming: Streaming<SessionRequest>,
        connection: ConnectionHandle,
        mut outbox: Outbox,
    ) {
        let first = tokio::time::timeout(self.limits.open_timeout, incoming.message());
        let first = tokio::select! {
            biased;
            // No session is opened any more: whoever has not asked for one is not waited for.
            () = self.shutdown.draining.cancelled() => return outbox.fail(draining().into()),
            first = first => first,
        };
        let request = match first {
            Ok(Ok(Some(request))) => request,
            // It went away before it said anything, or said it in a way that can't be read.
            Ok(Ok(None)) => return,
            Ok(Err(status)) => return outbox.fail(status),
            Err(_) => {
                let waited = self.limits.open_timeout;
                let refusal = Refusal::new(
                    Reason::OpenTimeout,
                    format!(
                        "no `open` came within {waited:?}; send it as the stream's first message"
                    ),
                );
                return outbox.fail(refusal.into());
            }
        };
        let opened = match self.open(request, &connection, &mut outbox) {
            Ok(opened) => opened,
            Err(refusal) => return outbox.fail(refusal.into()),
        };
        let coordinator = self.coordinator.clone();
        task::serve(
            coordinator,
            opened,
            connection,
            outbox,
            incoming,
            self.shutdown,
        )
        .await;
    }

    fn open(
        &self,
        request: SessionRequest,
        connection: &ConnectionHandle,
        outbox: &mut Outbox,
    ) -> Result<Opened, Refusal> {
        let now = clock::now();
        let Some(Ask::Open(SessionOpen {
            client_name,
            ttl,
            metadata,
        })) = request.request
        else {
            return Err(Refusal::new(
                Reason::NotOpen,
                "the stream's first message must be `open`",
            ));
        };
        if self.shutdown.draining.is_cancelled() {
            return Err(draining());
        }
        let client_name = convert::client_name("open.client_name", &client_name)?;
        let ttl = convert::ttl("open.ttl", ttl, self.coordinator.bounds())?;
        convert::metadata("open.metadata", &metadata)?;
        let id = SessionId::from_bytes(Uuid::new_v4().into_bytes());
        let info = SessionInfo {
            id,
            client_name: client_name.clone(),
            metadata,
            peer: connection.peer_addr().to_string(),
            ttl,
            opened_at: SystemTime::now(),
            holds: AtomicU32::new(0),
            waiters: AtomicU32::new(0),
            heard_at: AtomicU64::new(now.as_micros()),
        };
        let limit = self.limits.sessions;
        let listed = self.sessions.open(info, limit, self.coordinator.metrics()).ok_or_else(|| {
            Refusal::new(
                Reason::TooManySessions,
                format!("the coordinator has {limit} sessions, which is its limit; try another one or later"),
            )
        })?;
        let opened = SessionOpened {
            session_id: id.to_string(),
            ttl: Some(convert::wire_duration(ttl)),
            heartbeat_interval: Some(convert::wire_duration(heartbeat_interval(ttl))),
            coordinator: self.coordinator.id().to_string(),
        };
        outbox.send(request.request_id, Say::Opened(opened));
        Ok(Opened {
            id,
            client_name,
            lease: Lease::open(ttl, now),
            max_locks: self.limits.locks_per_session,
            listed,
        })
    }
}

/// How long a hold of the unary calls lasts from now, less the margin for clock drift.
fn left(stands_until: Moment, ttl: Duration) -> Duration {
    clock::now()
        .until(stands_until)
        .saturating_sub(drift_margin(ttl))
}

fn draining() -> Refusal {
    Refusal::new(
        Reason::Draining,
        "the coordinator is going away; open the session elsewhere",
    )
}

fn stopping() -> Refusal {
    Refusal::new(
        Reason::Draining,
        "the coordinator is stopping; try another one",
    )
}
