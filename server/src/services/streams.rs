//! Start of streams that are sessions, shared by the services that serve them.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64},
    },
    time::{Duration, SystemTime},
};

use leasehold_core::{id::SessionId, lease::Lease, name::ClientName, session::Resumption};
use leasehold_proto::v1::LostLock;
use leasehold_store::clock;
use tokio::{sync::mpsc, time::Instant};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::task::TaskTracker;
use tonic::{Code, Request, Response, Status, Streaming};
use uuid::Uuid;

use crate::{
    access::{Access, Caller, Rights},
    coordinator::Coordinator,
    limits::{Account, too_many_sessions},
    listener::ConnectionHandle,
    session::{
        driver::{self, Opened, Shutdown},
        outbox::{Outbox, Reading},
        sessions::{SessionInfo, Sessions},
        traces::Following,
        wire::Wire,
    },
    status::{Reason, Refusal},
    telemetry::{CallerContext, Traces},
};

/// What is expected of streams.
#[derive(Clone, Debug)]
pub struct StreamOptions {
    /// Answers that wait for a session's client to read before they count as a backlog.
    pub outbound_queue: usize,
    /// How long a client may leave a backlog of answers unread without taking any of it.
    pub reading_timeout: Duration,
    /// How long a new stream may take until its first message.
    pub open_timeout: Duration,
}

/// What the services share whose streams are sessions. Clones share it.
#[derive(Clone, Debug)]
pub struct Streams {
    /// What all calls share.
    pub coordinator: Coordinator,
    /// The sessions of this coordinator.
    pub sessions: Sessions,
    /// The tasks of those sessions.
    pub tasks: TaskTracker,
    /// When to stop.
    pub shutdown: Shutdown,
    /// Who may do what.
    pub access: Access,
    /// What is expected of them.
    pub options: StreamOptions,
    /// Where requests are traced.
    pub traces: Traces,
}

/// What tonic sends from.
type Said<W> = ReceiverStream<Result<<W as Wire>::Says, Status>>;

/// What is particular to one kind of stream.
#[derive(Debug)]
pub(super) struct Kind<Open> {
    /// The field of the message that comes first.
    pub(super) first: &'static str,
    /// Most answers that a session may owe.
    pub(super) owed: usize,
    /// Opens a session with that message, and gives the words that are spoken from then on; `None` if another message
    /// belongs to it.
    pub(super) open: Open,
}

/// Where a stream comes from.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) connection: ConnectionHandle,
    pub(super) rights: Rights,
    /// The caller's.
    pub(super) account: Arc<Account>,
}

/// Who opens a session, as its first message says.
#[derive(Debug)]
pub(super) struct Opener {
    pub(super) request_id: u64,
    pub(super) client_name: ClientName,
    pub(super) ttl: Duration,
    pub(super) disconnect_grace: Duration,
    pub(super) resume: Vec<Resumption>,
    /// What it may not resume.
    pub(super) denied: Vec<LostLock>,
    pub(super) metadata: HashMap<String, String>,
}

impl Streams {
    /// Answers a new stream, and serves it with a task of its own. What is wrong with its first message ends it.
    pub(super) fn begin<W, Open>(
        &self,
        request: Request<Streaming<W::Asks>>,
        kind: Kind<Open>,
    ) -> Result<Response<Said<W>>, Status>
    where
        W: Wire,
        Open: FnMut(&Self, W::Asks, &Peer) -> Result<Option<(Opened, W)>, Refusal> + Send + 'static,
    {
        let Some(connection) = request.extensions().get::<ConnectionHandle>().cloned() else {
            return Err(Status::internal(
                "the connection of this stream is not known",
            ));
        };
        if self.shutdown.draining.is_cancelled() {
            return Err(draining().into());
        }
        let rights = self.access.rights(request.extensions())?;
        let account = request.extensions().get().cloned();
        let peer = Peer {
            connection,
            rights,
            account: account.unwrap_or_else(|| {
                let caller = Caller::of(request.extensions());
                self.coordinator.limits().account(&caller)
            }),
        };
        let caller = CallerContext::of_stream(request.extensions());
        let following = Following::new(self.traces.clone(), caller);
        let (answers, receiver) = mpsc::channel(self.options.outbound_queue);
        // The stream's headers are sent at once.
        let run = self
            .clone()
            .run(request.into_inner(), peer, answers, following, kind);
        self.tasks.spawn(run);
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn run<W, Open>(
        self,
        mut incoming: Streaming<W::Asks>,
        mut peer: Peer,
        answers: mpsc::Sender<Result<W::Says, Status>>,
        following: Following,
        mut kind: Kind<Open>,
    ) where
        W: Wire,
        Open: FnMut(&Self, W::Asks, &Peer) -> Result<Option<(Opened, W)>, Refusal>,
    {
        // For all of what opens it.
        let deadline = Instant::now() + self.options.open_timeout;
        let opened = loop {
            match self.first(&mut incoming, kind.first, deadline).await {
                // It went away before it had said everything.
                Ok(None) => return,
                Ok(Some(message)) => match peer
                    .rights
                    .look_again()
                    .and_then(|()| (kind.open)(&self, message, &peer))
                {
                    Ok(None) => {}
                    Ok(Some(opened)) => break Ok(opened),
                    Err(refusal) => break Err(refusal.into()),
                },
                Err(status) => break Err(status),
            }
        };
        let (opened, wire) = match opened {
            Ok(opened) => opened,
            Err(status) => {
                // There is room for the first answer, unless the stream is gone.
                let _ = answers.try_send(Err(status));
                return;
            }
        };
        let reading = Reading {
            owed: kind.owed,
            patience: self.options.reading_timeout,
        };
        let connection = peer.connection;
        let metrics = self.coordinator.metrics().clone();
        let outbox =
            Outbox::new(wire, answers, reading, connection.clone(), metrics).followed(following);
        driver::serve(
            self.coordinator,
            opened,
            connection,
            outbox,
            incoming,
            self.shutdown,
        )
        .await;
    }

    /// A message that opens a stream; `None` if it ends before.
    async fn first<M>(
        &self,
        incoming: &mut Streaming<M>,
        called: &str,
        deadline: Instant,
    ) -> Result<Option<M>, Status> {
        let first = tokio::select! {
            biased;
            // No session is opened any more: whoever has not asked for one is not waited for.
            () = self.shutdown.draining.cancelled() => return Err(draining().into()),
            first = tokio::time::timeout_at(deadline, incoming.message()) => first,
        };
        if let Ok(Err(status)) = &first
            && status.code() == Code::OutOfRange
        {
            return Err(self.coordinator.limits().message_too_large().into());
        }
        first.unwrap_or_else(|_| {
            let waited = self.options.open_timeout;
            let refusal = Refusal::new(
                Reason::OpenTimeout,
                format!(
                    "no `{called}` came within {waited:?}; send it as the stream's first message"
                ),
            );
            Err(refusal.into())
        })
    }

    /// Opens a session, if there is room for one more.
    pub(super) fn open(&self, opener: Opener, peer: &Peer) -> Result<Opened, Refusal> {
        let now = clock::now();
        if self.shutdown.draining.is_cancelled() {
            return Err(draining());
        }
        let Opener {
            request_id,
            client_name,
            ttl,
            disconnect_grace,
            resume,
            denied,
            metadata,
        } = opener;
        let id = SessionId::from_bytes(Uuid::new_v4().into_bytes());
        let info = SessionInfo {
            id,
            client_name: client_name.clone(),
            metadata,
            identity: peer.rights.caller().identity().map(Into::into),
            peer: peer.connection.peer_addr().to_string(),
            ttl,
            opened_at: SystemTime::now(),
            holds: AtomicU32::new(0),
            waiters: AtomicU32::new(0),
            heard_at: AtomicU64::new(now.as_micros()),
            renewal_due: AtomicU64::new(0),
        };
        let limits = self.coordinator.limits();
        let mut from = resume.iter().flat_map(|resumption| &resumption.from);
        // Looked for only as long as none is found, and only by who names one.
        let resumes = from.any(|owner| self.coordinator.registry().knows(owner));
        let account = limits.session(Arc::clone(&peer.account), resumes)?;
        let config = limits.config();
        let limit = config.max_sessions;
        let listed = self
            .sessions
            .open(info, limit, resumes, self.coordinator.metrics())
            .ok_or_else(|| too_many_sessions(limit))?;
        Ok(Opened {
            request_id,
            id,
            client_name,
            lease: Lease::open(ttl, now),
            grace: disconnect_grace,
            resume,
            denied,
            max_locks: config.max_locks_per_session,
            rights: peer.rights.clone(),
            listed,
            account,
        })
    }
}

/// The refusal of a stream whose first message is another one than `called`.
pub(super) fn not_open(called: &str) -> Refusal {
    let message = format!("the stream's first message must be `{called}`");
    Refusal::new(Reason::NotOpen, message)
}

pub(super) fn draining() -> Refusal {
    Refusal::new(
        Reason::Draining,
        "the coordinator is going away; open the session elsewhere",
    )
}
