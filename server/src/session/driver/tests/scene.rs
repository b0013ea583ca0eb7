//! Scene of the tests: a session that is served over a store in memory, and a client whose ends the test has.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicU32, AtomicU64},
    time::{Duration, SystemTime},
};

use leasehold_core::{
    command::{Op, Reply},
    id::{FencingToken, OwnerId, SessionId},
    lease::Lease,
    name::ClientName,
    view::NameView,
};
use leasehold_proto::v1::{
    GrantedLock, SessionAcquire, session_request::Request as Ask, session_response::Response,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::mpsc,
    task::JoinHandle,
    time::timeout,
};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::Extensions;
use tonic_types::StatusExt;

use super::super::*;
use crate::{
    Liveness,
    access::Access,
    coordinator::tests::site::{Site, acquire},
    listener::{Connection, tests::connection},
    outbox::{
        Reading,
        channel::{Receiver, channel},
    },
    services::names,
    sessions::{SessionInfo, Sessions},
};

/// TTL of the sessions: nothing runs out of itself.
pub(super) const TTL: Duration = Duration::from_secs(60);
/// More than enough for anything that is to happen.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// A client's ends of its stream and its connection.
pub(super) struct Client {
    pub(super) connection: Connection,
    pub(super) peer: TcpStream,
    /// `None` once it has ended its side of the stream.
    pub(super) requests: Option<mpsc::UnboundedSender<Result<messages::Message, Status>>>,
    pub(super) answers: Receiver,
}

/// A session that is served, and what surrounds it.
pub(super) struct Scene {
    pub(super) site: Site,
    pub(super) client: Client,
    pub(super) shutdown: Shutdown,
    pub(super) served: JoinHandle<()>,
}

pub(super) fn name(text: &str) -> LockName {
    LockName::parse(text).unwrap()
}

/// Returns a client, and the coordinator's ends.
pub(super) async fn client(
    coordinator: &Coordinator,
) -> (Client, ConnectionHandle, Outbox, Requests) {
    let (connection, peer) = connection().await;
    let (requests, heard) = mpsc::unbounded_channel();
    let (said, answers) = channel(8);
    let reading = Reading {
        owed: 100,
        patience: TTL,
    };
    let handle = connection.handle().clone();
    let metrics = coordinator.metrics().clone();
    let outbox = Outbox::new(said, reading, handle.clone(), metrics);
    let client = Client {
        connection,
        peer,
        requests: Some(requests),
        answers,
    };
    let requests = UnboundedReceiverStream::new(heard).boxed();
    (client, handle, outbox, requests)
}

/// Returns a session that is kept for so long when its peer ended the stream.
pub(super) fn opened(coordinator: &Coordinator, grace: Duration) -> Opened {
    let id = SessionId::from_bytes([9; 16]);
    let client_name = ClientName::parse("client").unwrap();
    let info = SessionInfo {
        id,
        client_name: client_name.clone(),
        metadata: HashMap::new(),
        identity: None,
        peer: String::new(),
        ttl: TTL,
        opened_at: SystemTime::now(),
        holds: AtomicU32::new(0),
        waiters: AtomicU32::new(0),
        heard_at: AtomicU64::new(0),
        renewal_due: AtomicU64::new(0),
    };
    let (config, stop) = (crate::Config::default(), CancellationToken::new());
    let access = Access::start(config.into(), None, &Liveness::default(), stop).unwrap();
    let rights = access.rights(&Extensions::new()).unwrap();
    let limits = coordinator.limits();
    let account = limits.account(rights.caller());
    Opened {
        kind: Kind::LeaseStream,
        request_id: 1,
        id,
        client_name,
        lease: Lease::open(TTL, clock::now()),
        grace,
        resume: Vec::new(),
        denied: Vec::new(),
        rights,
        max_locks: 100,
        listed: Sessions::default().open(info, coordinator.metrics()),
        account: limits.session(account, false).unwrap(),
    }
}

/// Gives a lock to a stranger. Returns its owner id and token.
pub(super) async fn other_takes(coordinator: &Coordinator, text: &str) -> (OwnerId, FencingToken) {
    let acquire = acquire(1);
    let owner = acquire.owner;
    let taken = coordinator.execute(&name(text), Op::Acquire(acquire)).await;
    match taken.unwrap().executed.reply {
        Reply::Granted { token, .. } => (owner, token),
        other => panic!("{other:?}"),
    }
}

pub(super) async fn seen(coordinator: &Coordinator, text: &str) -> NameView {
    names::view(coordinator, &name(text), 0).await.unwrap()
}

impl Client {
    pub(super) fn ask(&self, request_id: u64, request: Ask) {
        let message = messages::Message {
            request_id,
            request: Some(request),
            ..messages::Message::default()
        };
        self.requests.as_ref().unwrap().send(Ok(message)).unwrap();
    }

    pub(super) fn acquire(&self, request_id: u64, text: &str) {
        let name = text.to_owned();
        self.ask(
            request_id,
            Ask::Acquire(SessionAcquire {
                name,
                ..SessionAcquire::default()
            }),
        );
    }

    pub(super) async fn answer(&mut self) -> Response {
        let answer = timeout(PATIENCE, self.answers.next()).await.unwrap();
        answer.unwrap().unwrap().response.unwrap()
    }

    pub(super) async fn granted(&mut self) -> GrantedLock {
        match self.answer().await {
            Response::Granted(mut granted) => granted.locks.remove(0),
            other => panic!("{other:?}"),
        }
    }

    /// Returns the reason with which its stream was ended.
    pub(super) async fn failed(&mut self) -> String {
        let answer = timeout(PATIENCE, self.answers.next()).await.unwrap();
        let status = answer.unwrap().unwrap_err();
        status.get_details_error_info().unwrap().reason
    }

    /// Ends the connection, as the exit of the process does. The session has not run since it became known.
    pub(super) async fn is_killed(&mut self) {
        self.peer.shutdown().await.unwrap();
        assert_eq!(self.connection.read(&mut [0]).await.unwrap(), 0);
    }
}

impl Scene {
    /// A session that has been opened.
    pub(super) async fn open(grace: Duration) -> Self {
        let site = Site::start();
        let coordinator = site.coordinator.clone();
        let opened = opened(&coordinator, grace);
        let (mut client, handle, outbox, requests) = client(&coordinator).await;
        let shutdown = Shutdown::idle();
        let session = serve(
            coordinator,
            opened,
            handle,
            outbox,
            requests,
            shutdown.clone(),
        );
        let served = tokio::spawn(session);
        let opened = client.answer().await;
        assert!(matches!(opened, Response::Opened(_)), "{opened:?}");
        Self {
            site,
            client,
            shutdown,
            served,
        }
    }

    /// A session that holds `a`, and waits for `b`.
    pub(super) async fn with_locks(grace: Duration) -> Self {
        let mut scene = Self::open(grace).await;
        other_takes(&scene.site.coordinator, "b").await;
        scene.client.acquire(2, "a");
        scene.client.granted().await;
        scene.client.acquire(3, "b");
        let queued = scene.client.answer().await;
        assert!(matches!(queued, Response::Queued(_)), "{queued:?}");
        assert_eq!(scene.left().await, (1, 1));
        scene
    }

    /// Returns how many hold `a`, and how many wait for `b`.
    pub(super) async fn left(&self) -> (u64, u64) {
        let a = seen(&self.site.coordinator, "a").await;
        let b = seen(&self.site.coordinator, "b").await;
        (a.holder_count, b.waiter_count)
    }

    /// Waits until the session has given up its place for `b`, and whatever else it gives up with it. Returns how many hold `a`.
    pub(super) async fn gave_up(&self) -> u64 {
        let gave_up = async {
            while self.left().await.1 > 0 {
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, gave_up).await.unwrap();
        self.cleaned_up().await;
        self.left().await.0
    }

    pub(super) async fn cleaned_up(&self) {
        let level = &self.site.coordinator.metrics().inflight_cleanups;
        let cleaned_up = async {
            while level.value() > 0 {
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, cleaned_up).await.unwrap();
    }

    /// Waits until the session's task has ended, and what it gave up is released.
    pub(super) async fn ended(&mut self) {
        let ended = timeout(PATIENCE, &mut self.served).await;
        ended.unwrap().unwrap();
        self.cleaned_up().await;
    }
}
