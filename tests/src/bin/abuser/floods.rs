//! Acquires without end.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use leasehold_proto::v1::{
    AcquireRequest, LockMode, LockSpec, RequestReleaseRequest, SessionAcquire, SessionHeartbeat,
    SessionOpen, SessionReduce, SessionRelease, SessionRequest,
    admin_service_client::AdminServiceClient, lock_service_client::LockServiceClient,
    session_request::Request, session_response::Response,
};
use leasehold_tests::raw::connect_from;
use tokio::{sync::mpsc, task::JoinSet};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

use crate::{http2, ready, tally::Tally};

/// Sessions that flood, and callers of the unary API.
const SESSIONS: usize = 10;
const CALLERS: usize = 10;
/// Number of requests that each session has in flight.
const IN_FLIGHT: usize = 256;
/// As many names as an acquire may have.
const SEVERAL: u64 = 64;
/// The lock whose holders are asked to release it.
const ASKED: &str = "abuse/asked";

/// Names that are asked for.
#[derive(Clone, Copy, Debug)]
enum Names {
    One,
    Distinct,
    /// Permits of one semaphore, each time with another limit of a greater revision.
    Limits,
    /// As many as an acquire may name, in a mode each. Acquires agree on half of the names, in other modes.
    Several,
}

static NUMBER: AtomicU64 = AtomicU64::new(0);

impl Names {
    fn next(self) -> SessionAcquire {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        match self {
            Self::One => SessionAcquire {
                name: "abuse/flood".to_owned(),
                ..SessionAcquire::default()
            },
            Self::Distinct => SessionAcquire {
                name: format!("abuse/flood/{number}"),
                wait: Some(prost_types::Duration::default()),
                ..SessionAcquire::default()
            },
            Self::Limits => {
                let limit_revision = u32::try_from(number + 1).unwrap_or(u32::MAX);
                SessionAcquire {
                    name: "abuse/limits".to_owned(),
                    mode: LockMode::Semaphore.into(),
                    permits: 2,
                    limit: 2 + limit_revision % 7,
                    limit_revision,
                    ..SessionAcquire::default()
                }
            }
            Self::Several => SessionAcquire {
                locks: (0..SEVERAL).map(|place| one_of(number, place)).collect(),
                ..SessionAcquire::default()
            },
        }
    }
}

/// Returns the lock at this place of an acquire of several.
fn one_of(number: u64, place: u64) -> LockSpec {
    let name = match place % 2 {
        0 => format!("abuse/several/{place}"),
        _ => format!("abuse/several/{number}/{place}"),
    };
    let spec = LockSpec {
        name,
        ..LockSpec::default()
    };
    match (number + place) % 3 {
        0 => spec,
        1 => LockSpec {
            mode: LockMode::Shared.into(),
            ..spec
        },
        _ => LockSpec {
            mode: LockMode::Semaphore.into(),
            permits: 2,
            permits_at_least: 1,
            limit: 3,
            ..spec
        },
    }
}

/// Sessions and unary callers that all want the same lock.
pub(crate) async fn one_name(server: SocketAddr, tally: Tally) -> anyhow::Result<()> {
    flood(server, Names::One, SESSIONS, CALLERS, tally).await
}

/// Does the same, each time for another lock.
pub(crate) async fn names(server: SocketAddr, tally: Tally) -> anyhow::Result<()> {
    flood(server, Names::Distinct, SESSIONS, CALLERS, tally).await
}

/// Sessions and unary callers that all change the limit of the same semaphore, and give their permits back one after the other.
pub(crate) async fn limits(server: SocketAddr, tally: Tally) -> anyhow::Result<()> {
    flood(server, Names::Limits, SESSIONS, CALLERS, tally).await
}

/// Sessions that all want several names at once, in a mode each.
pub(crate) async fn several(server: SocketAddr, tally: Tally) -> anyhow::Result<()> {
    flood(server, Names::Several, SESSIONS, 0, tally).await
}

/// Callers that ask sessions, which never read that, to release the lock that they share.
pub(crate) async fn requests(server: SocketAddr, tally: Tally) -> anyhow::Result<()> {
    let mut clients = JoinSet::new();
    for _ in 0..SESSIONS {
        let tally = tally.clone();
        clients.spawn(async move { deaf(server, &tally).await.map(drop) });
    }
    while tally.get("granted") < SESSIONS as u64 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for _ in 0..CALLERS {
        let tally = tally.clone();
        clients.spawn(async move {
            let mut admin = AdminServiceClient::new(channel(server).await?);
            loop {
                let request = RequestReleaseRequest {
                    name: ASKED.to_owned(),
                    reason: "x".repeat(256),
                    ..RequestReleaseRequest::default()
                };
                match admin.request_release(request).await {
                    Ok(answer) => {
                        tally.one("answers");
                        if answer.into_inner().asked_count == 0 {
                            tally.one("nobody_asked");
                        }
                    }
                    Err(_) => tally.one("refused"),
                }
            }
        });
    }
    while tally.get("answers") < 100 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    ready();
    clients.join_all().await;
    Ok(())
}

/// Shares a lock on a session, and reads nothing from then on. Heartbeats keep the session.
async fn deaf(server: SocketAddr, tally: &Tally) -> Option<()> {
    let (requests, outgoing) = mpsc::channel(16);
    let say = async |request_id, request| {
        let message = SessionRequest {
            request_id,
            request: Some(request),
            ..SessionRequest::default()
        };
        requests.send(message).await.ok()
    };
    say(1, Request::Open(SessionOpen::default())).await?;
    let acquire = SessionAcquire {
        name: ASKED.to_owned(),
        mode: LockMode::Shared.into(),
        ..SessionAcquire::default()
    };
    say(2, Request::Acquire(acquire)).await?;
    let mut client = LockServiceClient::new(channel(server).await?);
    let outgoing = ReceiverStream::new(outgoing);
    let mut answers = client.session(outgoing).await.ok()?.into_inner();
    while !matches!(
        answers.message().await.ok()??.response?,
        Response::Granted(_)
    ) {}
    tally.one("granted");
    for sequence in 1.. {
        tokio::time::sleep(Duration::from_secs(1)).await;
        say(
            2 + sequence,
            Request::Heartbeat(SessionHeartbeat { sequence }),
        )
        .await?;
    }
    Some(())
}

/// Floods with one session alone, always for other locks.
pub(crate) async fn one_session(server: SocketAddr, tally: Tally) -> anyhow::Result<()> {
    flood(server, Names::Distinct, 1, 0, tally).await
}

async fn flood(
    server: SocketAddr,
    names: Names,
    sessions: usize,
    callers: usize,
    tally: Tally,
) -> anyhow::Result<()> {
    let mut clients = JoinSet::new();
    let in_flight = match names {
        Names::Several => IN_FLIGHT / 16,
        _ if sessions == 1 => 16 * IN_FLIGHT,
        _ => IN_FLIGHT,
    };
    for _ in 0..sessions {
        let tally = tally.clone();
        clients.spawn(async move {
            loop {
                // However it ends, it begins anew.
                if session(server, names, in_flight, &tally).await.is_none() {
                    tally.one("sessions_ended");
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
    }
    for _ in 0..callers {
        let tally = tally.clone();
        clients.spawn(async move {
            loop {
                caller(server, names, &tally).await;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
    }
    while tally.get("answers") < 100 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    ready();
    clients.join_all().await;
    Ok(())
}

pub(crate) async fn channel(server: SocketAddr) -> Option<Channel> {
    let connected = connect_from(Some(http2::own_address()), &format!("http://{server}")).await;
    connected.ok()
}

/// Has so much in flight on one session. What it is granted it gives back.
async fn session(server: SocketAddr, names: Names, in_flight: usize, tally: &Tally) -> Option<()> {
    let (requests, outgoing) = mpsc::channel(in_flight + 16);
    let request_id = Arc::new(AtomicU64::new(0));
    let say = async |request| {
        let request_id = request_id.fetch_add(1, Ordering::Relaxed) + 1;
        let message = SessionRequest {
            request_id,
            request: Some(request),
            ..SessionRequest::default()
        };
        requests.send(message).await.ok()
    };
    let ask = async || {
        tally.one("acquires");
        say(Request::Acquire(names.next())).await
    };
    say(Request::Open(SessionOpen::default())).await?;
    let mut client = LockServiceClient::new(channel(server).await?);
    let mut answers = client
        .session(ReceiverStream::new(outgoing))
        .await
        .ok()?
        .into_inner();
    answers.message().await.ok()??;
    let beating = async {
        for sequence in 1.. {
            tokio::time::sleep(Duration::from_secs(1)).await;
            say(Request::Heartbeat(SessionHeartbeat { sequence })).await?;
        }
        Some(())
    };
    let flooding = async {
        for _ in 0..in_flight {
            ask().await?;
        }
        loop {
            let answer = answers.message().await.ok()??;
            tally.one("answers");
            match answer.response? {
                Response::Granted(granted) => {
                    for lock in granted.locks {
                        tally.one("granted");
                        let (name, owner_id) = (lock.name, lock.owner_id);
                        if let Names::Limits = names {
                            let (name, owner_id) = (name.clone(), owner_id.clone());
                            let permits = 1;
                            say(Request::Reduce(SessionReduce {
                                name,
                                owner_id,
                                permits,
                            }))
                            .await?;
                        }
                        say(Request::Release(SessionRelease { name, owner_id })).await?;
                    }
                    ask().await?;
                }
                Response::Error(_) => {
                    tally.one("refused");
                    ask().await?;
                }
                Response::NotGranted(_) => ask().await?,
                _ => {}
            }
        }
    };
    tokio::select! {
        ended = flooding => ended,
        ended = beating => ended,
    }
}

async fn caller(server: SocketAddr, names: Names, tally: &Tally) {
    let Some(channel) = channel(server).await else {
        return;
    };
    let mut client = LockServiceClient::new(channel);
    loop {
        let wanted = names.next();
        let request = AcquireRequest {
            name: wanted.name,
            mode: wanted.mode,
            permits: wanted.permits,
            limit: wanted.limit,
            limit_revision: wanted.limit_revision,
            ttl: Some(prost_types::Duration {
                seconds: 1,
                nanos: 0,
            }),
            ..AcquireRequest::default()
        };
        tally.one("acquires");
        match client.acquire(request).await {
            Ok(_) => tally.one("answers"),
            Err(_) => tally.one("refused"),
        }
    }
}
