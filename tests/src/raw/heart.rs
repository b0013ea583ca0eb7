//! Heartbeats, and the deadlines that they renew.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use leasehold_proto::v1::{
    SessionHeartbeat, SessionRequest, session_request::Request, session_response::Response,
};
use tokio::sync::mpsc;

use super::{PROMPT, RawSession, parse};

/// Times at which the heartbeats were sent; the `open` is the first.
#[derive(Debug, Default)]
pub(super) struct Heart {
    sent: Mutex<Vec<Instant>>,
    /// Held while a heartbeat is numbered and sent, so that the numbers rise on the stream too.
    order: tokio::sync::Mutex<()>,
}

impl Heart {
    /// Notes that a heartbeat is being sent, and returns its number.
    pub(super) fn note(&self) -> u64 {
        let mut sent = self.sent.lock().unwrap();
        sent.push(Instant::now());
        u64::try_from(sent.len() - 1).expect("a small number")
    }

    pub(super) fn sent(&self, sequence: u64) -> Instant {
        self.known(sequence).expect("the heartbeat was noted")
    }

    /// Returns when a heartbeat was sent, if it was noted: a test may send others of its own.
    pub(super) fn known(&self, sequence: u64) -> Option<Instant> {
        let place = usize::try_from(sequence).expect("a small number");
        self.sent.lock().unwrap().get(place).copied()
    }

    pub(super) async fn beat(
        &self,
        requests: &mpsc::Sender<SessionRequest>,
    ) -> Result<u64, mpsc::error::SendError<SessionRequest>> {
        let _order = self.order.lock().await;
        let sequence = self.note();
        let request = Request::Heartbeat(SessionHeartbeat { sequence });
        requests
            .send(SessionRequest {
                request_id: HEARTBEAT_IDS + sequence,
                request: Some(request),
                ..SessionRequest::default()
            })
            .await?;
        Ok(sequence)
    }
}

/// Heartbeats have request ids of their own, above those of other requests.
pub(super) const HEARTBEAT_IDS: u64 = 1 << 32;

impl RawSession {
    /// Sends a heartbeat, waits for its answer and returns the moment until which it makes everything good.
    ///
    /// # Panics
    ///
    /// If it is not answered.
    pub async fn heartbeat(&mut self) -> Instant {
        let requests = self.requests.as_ref().expect("the stream is up");
        let sequence = self.heart.beat(requests).await.expect("the stream is up");
        match self.answer(HEARTBEAT_IDS + sequence, PROMPT).await {
            Response::Heartbeat(ack) => {
                assert_eq!(ack.acked_heartbeat, sequence);
                self.heart.sent(sequence) + parse(ack.valid_for)
            }
            other => panic!("a heartbeat was answered by {other:?}"),
        }
    }

    /// Sends a heartbeat every `interval` from now on, in the background. Their answers are read when something else is.
    ///
    /// # Panics
    ///
    /// If the stream has ended.
    pub fn keep_alive(&mut self, interval: Duration) {
        let requests = self.requests.clone().expect("the stream is up");
        let heart = Arc::clone(&self.heart);
        let beat = tokio::spawn(async move {
            while heart.beat(&requests).await.is_ok() {
                tokio::time::sleep(interval).await;
            }
        });
        self.beat = Some(beat.abort_handle());
    }

    /// Waits until heartbeats can't be sent any more because the coordinator has ended the stream. Nothing is read.
    ///
    /// # Panics
    ///
    /// If that does not happen within `limit`.
    pub async fn wait_until_cut_off(&self, limit: Duration) {
        let requests = self.requests.as_ref().expect("this side is open");
        tokio::time::timeout(limit, requests.closed())
            .await
            .unwrap_or_else(|_| panic!("not cut off after {limit:?}"));
    }

    /// Returns the moment until which the client may believe in its holds, by the answers to heartbeats that were read so far;
    /// `None` if there was none.
    pub fn good_until(&self) -> Option<Instant> {
        self.good_until
    }

    /// Stops the heartbeats of [`keep_alive`](Self::keep_alive): the client falls silent.
    pub fn fall_silent(&mut self) {
        if let Some(beat) = self.beat.take() {
            beat.abort();
        }
    }
}
