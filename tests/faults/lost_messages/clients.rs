//! Clients, each with a task of its own that reports the messages it receives.

use std::time::{Duration, Instant};

use leasehold_proto::v1::{
    AcquireOutcome, AcquireRequest, GrantedLock, SessionAcquire, SessionOpen, SessionRelease,
    lock_service_client::LockServiceClient, session_request::Request, session_response::Response,
};
use leasehold_tests::{
    RawSession,
    raw::{PROMPT, release_request, wire},
};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;
use tonic::{Status, transport::Channel};
use tonic_types::StatusExt;

use crate::lost_messages::TTL;

/// Longer than any history.
const LONG: Duration = Duration::from_secs(3600);

/// Message for a client.
#[derive(Debug)]
pub(crate) enum News {
    /// It waits.
    Queued,
    /// It holds the lock.
    Granted(GrantedLock),
    /// Its release was answered.
    Released(bool),
    /// Its acquire or release failed, for this reason.
    Failed(String),
    /// The coordinator said something that it was not asked.
    Unasked(Response),
}

/// Message for a client, with the time at which it came.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) client: usize,
    pub(crate) at: Instant,
    pub(crate) news: News,
}

/// Way in which a client acquires and releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// By a session.
    Session,
    /// By unary calls, again until they are answered.
    Unary,
    /// By a session, whose stream it drops instead of a release.
    Dying,
}

/// Order to a client.
enum Order {
    Acquire,
    Release(GrantedLock),
}

/// A client of one lock.
pub(crate) struct Client {
    pub(crate) name: String,
    orders: mpsc::UnboundedSender<Order>,
    task: AbortOnDropHandle<()>,
}

/// Tells the news of one client.
#[derive(Clone)]
struct Teller {
    client: usize,
    events: mpsc::UnboundedSender<Event>,
}

impl Teller {
    fn tell(&self, news: News) {
        let event = Event {
            client: self.client,
            at: Instant::now(),
            news,
        };
        // Nobody listens once the history has failed.
        let _ = self.events.send(event);
    }
}

impl Client {
    /// Returns a client of the coordinator at `channel`.
    pub(crate) async fn start(
        (client, name, kind): (usize, String, Kind),
        channel: Channel,
        lock: &str,
        events: mpsc::UnboundedSender<Event>,
    ) -> Self {
        let (orders, taken) = mpsc::unbounded_channel();
        let teller = Teller { client, events };
        let lock = lock.to_owned();
        let task = if kind == Kind::Unary {
            let request = AcquireRequest {
                name: lock,
                ttl: wire(TTL),
                wait: wire(LONG),
                client_name: name.clone(),
                ..AcquireRequest::default()
            };
            let client = LockServiceClient::new(channel);
            tokio::spawn(by_calls(client, request, taken, teller))
        } else {
            let mut session = RawSession::stream(channel).await.unwrap();
            let open = SessionOpen {
                ttl: wire(TTL),
                client_name: name.clone(),
                ..SessionOpen::default()
            };
            let id = session.send(Request::Open(open)).await;
            let opened = session.answer(id, PROMPT).await;
            assert!(matches!(opened, Response::Opened(_)), "{opened:?}");
            tokio::spawn(by_session(session, (lock, kind), taken, teller))
        };
        let task = AbortOnDropHandle::new(task);
        Self { name, orders, task }
    }

    pub(crate) fn acquire(&self) {
        self.orders.send(Order::Acquire).ok().unwrap();
    }

    pub(crate) fn release(&self, lock: GrantedLock) {
        self.orders.send(Order::Release(lock)).ok().unwrap();
    }

    /// Closes its session.
    pub(crate) async fn close(self) {
        drop(self.orders);
        self.task.await.unwrap();
    }
}

async fn by_session(
    mut session: RawSession,
    (name, kind): (String, Kind),
    mut orders: mpsc::UnboundedReceiver<Order>,
    teller: Teller,
) {
    loop {
        tokio::select! {
            order = orders.recv() => {
                let request = match order {
                    Some(Order::Acquire) => Request::Acquire(SessionAcquire {
                        name: name.clone(),
                        ..SessionAcquire::default()
                    }),
                    Some(Order::Release(_)) if kind == Kind::Dying => {
                        drop(session);
                        return teller.tell(News::Released(true));
                    }
                    Some(Order::Release(lock)) => Request::Release(SessionRelease {
                        name: lock.name,
                        owner_id: lock.owner_id,
                        expired: false,
                    }),
                    None => return session.close().await,
                };
                session.send(request).await;
            }
            message = session.next(LONG) => {
                let message = message.unwrap().expect("the stream is up");
                teller.tell(match (message.request_id, message.response.unwrap()) {
                    (0, response) => News::Unasked(response),
                    (_, Response::Queued(_)) => News::Queued,
                    (_, Response::Granted(mut granted)) => News::Granted(granted.locks.remove(0)),
                    (_, Response::Released(released)) => News::Released(released.released),
                    (_, Response::Error(failure)) => News::Failed(failure.reason),
                    (_, other) => News::Unasked(other),
                });
            }
        }
    }
}

async fn by_calls(
    mut client: LockServiceClient<Channel>,
    request: AcquireRequest,
    mut orders: mpsc::UnboundedReceiver<Order>,
    teller: Teller,
) {
    while let Some(order) = orders.recv().await {
        let news = match order {
            Order::Acquire => client.acquire(request.clone()).await.map(|response| {
                let granted = response.into_inner();
                assert_eq!(granted.outcome(), AcquireOutcome::Granted);
                News::Granted(GrantedLock {
                    name: request.name.clone(),
                    owner_id: granted.owner_id,
                    fencing_token: granted.fencing_token,
                    hold_count: 1,
                    permits: 0,
                })
            }),
            Order::Release(lock) => {
                let release = release_request(&lock.name, &lock.owner_id);
                let released = client.release(release).await;
                released.map(|response| News::Released(response.into_inner().released))
            }
        };
        teller.tell(news.unwrap_or_else(|status| News::Failed(reason(&status))));
    }
}

fn reason(status: &Status) -> String {
    let details = status.get_error_details();
    match details.error_info() {
        Some(info) => info.reason.clone(),
        None => format!("{status:?}"),
    }
}
