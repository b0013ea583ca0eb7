//! An observer at the level of the wire.

use std::time::{Duration, Instant};

use leasehold_proto::v1::{Leader, ObserveRequest, election_service_client::ElectionServiceClient};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;
use tonic::{Status, transport::Channel};

use super::PROMPT;

/// One call that tells who leads, which is read all the time. Dropping it cancels the call.
#[derive(Debug)]
pub struct RawObserver {
    seen: mpsc::UnboundedReceiver<Result<Seen, Status>>,
    log: Vec<Seen>,
    _task: AbortOnDropHandle<()>,
}

/// Message for an observer.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The time at which it came.
    pub at: Instant,
    /// The leader from then on.
    pub leader: Option<Leader>,
    /// Whether there may have been other leaders in between.
    pub skipped: bool,
}

impl Seen {
    /// Returns the leader's token; `None` while there is no leader.
    pub fn token(&self) -> Option<i64> {
        self.leader.as_ref().map(|leader| leader.fencing_token)
    }

    /// Returns the leader's value; `None` while there is no leader.
    pub fn value(&self) -> Option<&[u8]> {
        self.leader.as_ref().map(|leader| &leader.value[..])
    }
}

impl RawObserver {
    /// Begins to observe. Leaves the first message to be read.
    ///
    /// # Panics
    ///
    /// If the call is refused, or not answered.
    pub async fn observe(channel: Channel, election: &str) -> Self {
        let election = election.to_owned();
        let mut stub = ElectionServiceClient::new(channel);
        let call = stub.observe(ObserveRequest { election });
        let mut responses = tokio::time::timeout(PROMPT, call)
            .await
            .unwrap_or_else(|_| panic!("not answered within {PROMPT:?}"))
            .unwrap_or_else(|status| panic!("not to be observed: {status:?}"))
            .into_inner();
        let (tell, seen) = mpsc::unbounded_channel();
        let task = tokio::spawn(async move {
            loop {
                let next = match responses.message().await {
                    Ok(Some(next)) => Ok(Seen {
                        at: Instant::now(),
                        leader: next.leader,
                        skipped: next.skipped,
                    }),
                    Ok(None) => Err(Status::ok("the stream ended in order")),
                    Err(status) => Err(status),
                };
                let is_end = next.is_err();
                if tell.send(next).is_err() || is_end {
                    return;
                }
            }
        });
        Self {
            seen,
            log: Vec::new(),
            _task: AbortOnDropHandle::new(task),
        }
    }

    /// Returns the next message.
    ///
    /// # Panics
    ///
    /// If nothing comes within `limit`, or the stream has ended.
    pub async fn next(&mut self, limit: Duration) -> Seen {
        match self.read(limit).await {
            Ok(seen) => seen,
            Err(end) => panic!("the stream ended: {end:?}"),
        }
    }

    /// Reads on until a message is `wanted`.
    ///
    /// # Panics
    ///
    /// If nothing such comes within `limit`: with what came last.
    pub async fn until(&mut self, limit: Duration, wanted: impl Fn(&Seen) -> bool) -> Seen {
        let deadline = Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let seen = self.next(left).await;
            if wanted(&seen) {
                return seen;
            }
        }
    }

    /// Reads on until there is a leader with this token.
    ///
    /// # Panics
    ///
    /// If nobody does within `limit`.
    pub async fn leads(&mut self, token: i64, limit: Duration) -> Seen {
        self.until(limit, |seen| seen.token() == Some(token)).await
    }

    /// Reads to the end of the stream, and gives its status.
    ///
    /// # Panics
    ///
    /// If it does not end within `limit`.
    pub async fn end(&mut self, limit: Duration) -> Status {
        let deadline = Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if let Err(status) = self.read(left).await {
                return status;
            }
        }
    }

    /// Returns all messages that were read so far.
    pub fn log(&self) -> &[Seen] {
        &self.log
    }

    async fn read(&mut self, limit: Duration) -> Result<Seen, Status> {
        let next = tokio::time::timeout(limit, self.seen.recv()).await;
        let next = next.unwrap_or_else(|_| {
            panic!(
                "an observer was told nothing for {limit:?} after {:?}",
                self.log.last()
            )
        });
        let seen = next.expect("the end has not been told before")?;
        self.log.push(seen.clone());
        Ok(seen)
    }
}
