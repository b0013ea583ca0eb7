//! Watcher at the level of the wire.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use leasehold_proto::v1::{
    LockEvent, LockEventKind, LockView, WatchLocksRequest, WatchLocksResponse,
    admin_service_client::AdminServiceClient, watch_locks_response::Response,
};
use leasehold_tests::{Site, raw::PROMPT};
use tokio::time::timeout;
use tonic::{Status, Streaming, transport::Channel};

/// Tolerated difference between the clocks of this process and of Redis.
const APART: Duration = Duration::from_secs(1);

/// A watcher.
pub(crate) struct Watch {
    stream: Streaming<WatchLocksResponse>,
}

impl Watch {
    /// Begins to watch, and waits for the snapshot.
    pub(crate) async fn begin(channel: Channel, prefix: &str) -> (Self, Vec<LockView>) {
        let mut watch = Self::stream(channel, prefix).await;
        let snapshot = watch.snapshot().await;
        (watch, snapshot)
    }

    /// Begins to watch at a coordinator, and reads the snapshot.
    pub(crate) async fn at(site: &Site, at: usize, prefix: &str) -> Self {
        let (watch, _) = Self::begin(site.at(at).channel().await, prefix).await;
        watch
    }

    /// Begins to watch, and reads nothing yet.
    pub(crate) async fn stream(channel: Channel, prefix: &str) -> Self {
        let prefix = prefix.to_owned();
        let request = WatchLocksRequest { prefix };
        let stream = AdminServiceClient::new(channel).watch_locks(request).await;
        Self {
            stream: stream.unwrap().into_inner(),
        }
    }

    /// Returns the next message.
    pub(crate) async fn next(&mut self) -> Response {
        let message = timeout(PROMPT, self.stream.message()).await;
        let message = message.expect("something is told").unwrap();
        message.expect("the stream goes on").response.unwrap()
    }

    /// Returns the status with which the stream ends.
    pub(crate) async fn end(&mut self) -> Status {
        loop {
            match timeout(PROMPT, self.stream.message()).await {
                Err(_) => panic!("the stream goes on"),
                Ok(Ok(Some(_))) => {}
                Ok(Ok(None)) => return Status::ok("ended"),
                Ok(Err(status)) => return status,
            }
        }
    }

    /// Reads the rest of a snapshot; events in between go to locks that it had, and are left out.
    pub(crate) async fn snapshot(&mut self) -> Vec<LockView> {
        let mut locks = Vec::new();
        loop {
            match self.next().await {
                Response::Lock(lock) => locks.push(lock),
                Response::Event(_) => {}
                Response::Ready(ready) => {
                    assert_eq!(ready.lock_count, locks.len() as u64);
                    return locks;
                }
                Response::Gap(gap) => panic!("{gap:?}"),
            }
        }
    }

    /// Returns the next event.
    pub(crate) async fn event(&mut self) -> LockEvent {
        match self.next().await {
            Response::Event(event) => event,
            other => panic!("no event: {other:?}"),
        }
    }

    /// Returns the next event, which must be of this kind.
    pub(crate) async fn told(&mut self, kind: LockEventKind) -> LockEvent {
        let event = self.event().await;
        assert_eq!(event.kind(), kind, "{event:?}");
        event
    }

    /// Returns the next message within a time, if there is any.
    pub(crate) async fn within(&mut self, time: Duration) -> Option<Response> {
        let message = timeout(time, self.stream.message()).await.ok()?;
        message.unwrap().expect("the stream goes on").response
    }
}

/// A watcher's knowledge from its messages: the holders of each lock, by token.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) holders: BTreeMap<String, Vec<i64>>,
    pub(crate) is_ready: bool,
    pub(crate) gaps: usize,
    pub(crate) events: usize,
}

impl Known {
    pub(crate) fn take_in(&mut self, response: Response) {
        use LockEventKind::{Expired, Forced, Granted, Lost, Released};
        match response {
            Response::Lock(lock) => {
                let tokens = lock.holders.iter().map(|holder| holder.fencing_token);
                self.holders.insert(lock.name, tokens.collect());
            }
            Response::Ready(_) => self.is_ready = true,
            Response::Gap(_) => {
                self.holders.clear();
                self.is_ready = false;
                self.gaps += 1;
            }
            Response::Event(event) => {
                self.events += 1;
                let (kind, token) = (event.kind(), event.fencing_token);
                let holders = self.holders.entry(event.name.clone()).or_default();
                match kind {
                    Granted => {
                        assert!(
                            holders.iter().all(|held| *held < token),
                            "{holders:?}: {event:?}"
                        );
                        holders.push(token);
                    }
                    Released | Expired | Lost | Forced => {
                        let held = holders.iter().position(|held| *held == token);
                        holders.remove(held.unwrap_or_else(|| panic!("{holders:?}: {event:?}")));
                    }
                    _ => {}
                }
                assert_eq!(
                    event.holder_count,
                    holders.len() as u64,
                    "{holders:?}: {event:?}"
                );
            }
        }
    }

    /// Returns the locks that are held.
    pub(crate) fn held(&self) -> BTreeMap<String, Vec<i64>> {
        let mut held = self.holders.clone();
        held.retain(|_, holders| !holders.is_empty());
        held
    }
}

/// Checks that an event is of a moment since then; returns how late it came.
pub(crate) fn is_since(since: SystemTime, event: &LockEvent) -> Duration {
    let (time, now) = (
        SystemTime::try_from(event.time.unwrap()).unwrap(),
        SystemTime::now(),
    );
    let earliest = since - APART;
    assert!(
        (earliest..=now + APART).contains(&time),
        "{since:?} to {now:?}: {event:?}"
    );
    now.duration_since(time).unwrap_or_default()
}
