//! Start of streams that are sessions, shared by the services that serve them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64},
    },
    time::SystemTime,
};

use futures_util::{Stream, TryStreamExt};
use leasehold_core::{id::SessionId, lease::Lease};
use leasehold_store::clock;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use tonic::{Code, Extensions, Status};
use uuid::Uuid;

use super::opening::{Opener, Opening};
use crate::{
    access::{Access, Caller, Rights},
    config::Config,
    convert::{request::Requests, stream::Kind},
    coordinator::Coordinator,
    limits::Account,
    listener::ConnectionHandle,
    outbox::{
        Outbox, Reading,
        channel::{Receiver, Sender, channel},
        traces::Following,
    },
    session::{driver, opened::Opened, signals::Shutdown},
    sessions::{SessionInfo, Sessions},
    status::{Reason, Refusal},
    telemetry::{CallerContext, Traces},
};

/// Parts that the services share whose streams are sessions. Clones share them.
#[derive(Clone, Debug)]
pub struct Streams {
    /// The coordinator.
    pub coordinator: Coordinator,
    /// The sessions of this coordinator.
    pub sessions: Sessions,
    /// The tasks of those sessions.
    pub tasks: TaskTracker,
    /// The signals to drain and to stop.
    pub shutdown: Shutdown,
    /// The permissions.
    pub access: Access,
    /// The configuration that the coordinator started with, for settings that need a restart.
    pub config: Arc<Config>,
    /// The traces of requests.
    pub traces: Traces,
}

/// Client of a stream.
#[derive(Debug)]
struct Peer {
    connection: ConnectionHandle,
    rights: Rights,
    /// The caller's.
    account: Arc<Account>,
}

impl Streams {
    /// Returns the account of a request's caller.
    pub(super) fn account(&self, extensions: &Extensions) -> Arc<Account> {
        let account = extensions.get().cloned();
        account.unwrap_or_else(|| {
            let caller = Caller::of(extensions);
            self.coordinator.limits().account(&caller)
        })
    }

    /// Answers a new stream, and serves it with a task of its own. What is wrong with its first message ends it.
    pub(super) fn begin(
        &self,
        extensions: &Extensions,
        requests: Requests,
        kind: Kind,
    ) -> Result<Receiver, Status> {
        let Some(connection) = extensions.get::<ConnectionHandle>().cloned() else {
            return Err(Status::internal(
                "the connection of this stream is not known",
            ));
        };
        if self.shutdown.draining.is_cancelled() {
            return Err(draining().into());
        }
        let rights = self.access.rights(extensions)?;
        let peer = Peer {
            connection,
            rights,
            account: self.account(extensions),
        };
        let caller = CallerContext::of_stream(extensions);
        let following = Following::new(self.traces.clone(), caller);
        let (sender, answers) = channel(self.config.outbound_queue);
        // The stream's headers are sent at once.
        let run = self.clone().run(requests, peer, sender, following, kind);
        self.tasks.spawn(run);
        Ok(answers)
    }

    async fn run(
        self,
        mut requests: Requests,
        mut peer: Peer,
        answers: Sender,
        following: Following,
        kind: Kind,
    ) {
        // For all of what opens it.
        let deadline = Instant::now() + self.config.handshake_timeout;
        let mut opening = Opening::default();
        let opened = loop {
            match self.first(&mut requests, kind, deadline).await {
                // It went away before it had said everything.
                Ok(None) => return,
                Ok(Some(request)) => match peer
                    .rights
                    .look_again()
                    .and_then(|()| opening.hear(request, &self.coordinator, peer.rights.granted()))
                {
                    Ok(None) => {}
                    Ok(Some(opener)) => break self.open(opener, &peer, kind).map_err(Status::from),
                    Err(refusal) => break Err(refusal.into()),
                },
                Err(status) => break Err(status),
            }
        };
        let opened = match opened {
            Ok(opened) => opened,
            Err(status) => {
                // There is room for the first answer, unless the stream is gone.
                let _ = answers.offer(Err(status));
                return;
            }
        };
        let reading = Reading {
            owed: kind.owed(self.coordinator.limits()),
            patience: self.config.keepalive_timeout,
        };
        let connection = peer.connection;
        let metrics = self.coordinator.metrics().clone();
        let outbox = Outbox::new(answers, reading, connection.clone(), metrics).followed(following);
        driver::serve(
            self.coordinator,
            opened,
            connection,
            outbox,
            requests,
            self.shutdown,
        )
        .await;
    }

    /// Returns a request that opens a stream; `None` if the stream ends before.
    async fn first<T>(
        &self,
        requests: &mut (impl Stream<Item = Result<T, Status>> + Unpin),
        kind: Kind,
        deadline: Instant,
    ) -> Result<Option<T>, Status> {
        let first = tokio::select! {
            biased;
            // No session is opened any more: whoever has not asked for one is not waited for.
            () = self.shutdown.draining.cancelled() => return Err(draining().into()),
            first = tokio::time::timeout_at(deadline, requests.try_next()) => first,
        };
        if let Ok(Err(status)) = &first
            && status.code() == Code::OutOfRange
        {
            return Err(self.coordinator.limits().message_too_large().into());
        }
        first.unwrap_or_else(|_| {
            let waited = self.config.handshake_timeout;
            let refusal = Refusal::new(
                Reason::OpenTimeout,
                format!(
                    "no `{}` came within {waited:?}; send it as the stream's first message",
                    kind.first()
                ),
            );
            Err(refusal.into())
        })
    }

    /// Opens a session, if there is room for one more.
    fn open(&self, opener: Opener, peer: &Peer, kind: Kind) -> Result<Opened, Refusal> {
        let now = clock::now();
        if self.shutdown.draining.is_cancelled() {
            return Err(draining());
        }
        let Opener {
            request_id,
            client_name,
            ttl,
            disconnect_grace,
            metadata,
            resume,
            denied,
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
        let listed = self.sessions.open(info, self.coordinator.metrics());
        Ok(Opened {
            kind,
            request_id,
            id,
            client_name,
            lease: Lease::open(ttl, now),
            grace: disconnect_grace,
            resume,
            denied,
            max_locks: limits.config().max_locks_per_session,
            rights: peer.rights.clone(),
            listed,
            account,
        })
    }
}

pub(super) fn draining() -> Refusal {
    Refusal::new(
        Reason::Draining,
        "the coordinator is going away; open the session elsewhere",
    )
}
