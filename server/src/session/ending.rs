//! End of a session, and the fate of its holds.

use std::time::Duration;

use futures_util::StreamExt;
use leasehold_core::time::Moment;
use leasehold_proto::v1::{SessionClosed, session_response::Response};
use leasehold_store::clock;

use super::{
    signals::Signals,
    task::{Done, Session, Shutdown},
    wire::Wire,
};
use crate::{
    coordinator::hold::Hold,
    status::{Reason, Refusal},
};

/// Longest rest while its promises run out: they are by a clock that counts suspended time, the timer's does not.
pub(super) const LONGEST_REST: Duration = Duration::from_secs(1);

/// Why a session ends.
#[derive(Debug)]
pub(super) enum End {
    /// The client said `close` under this request id.
    Closed(u64),
    /// The peer ended its stream or connection.
    Peer,
    /// No heartbeat came for the TTL.
    Silent,
    /// The stream ended by our doing or nobody knows whose: the client may still believe in its locks.
    Cut,
    /// The client broke the protocol, or is nobody any more; as `Cut`, with something to say.
    Broken(Refusal),
    /// What the stream was opened for can't be had.
    Failed(Refusal),
    /// The coordinator stops.
    Stopping,
}

impl<W: Wire> Session<W> {
    pub(super) async fn end(mut self, end: End, shutdown: &Shutdown, signals: &mut Signals) {
        tracing::debug!(session = %self.id, ?end, holds = self.holds.len(), "session ends");
        match end {
            End::Closed(request_id) => {
                self.close(request_id).await;
                self.outbox.flush().await;
                self.outlast(shutdown).await;
            }
            // Apart, so that it takes no room in the sessions that have no grace.
            End::Peer if !self.grace.is_zero() => Box::pin(self.keep(signals)).await,
            End::Peer => {}
            End::Silent => {
                let ttl = self.lease.ttl();
                let refusal = Refusal::new(
                    Reason::SessionSilent,
                    format!(
                        "no heartbeat came for the session's TTL of {ttl:?}: everything that it held was released"
                    ),
                );
                self.fail(refusal).await;
            }
            End::Failed(refusal) => {
                self.fail(refusal).await;
                self.outlast(shutdown).await;
            }
            End::Cut => self.linger(shutdown).await,
            End::Broken(refusal) => {
                self.outbox.fail(refusal.into());
                self.drop_operations();
                self.outbox.flush().await;
                self.linger(shutdown).await;
            }
            End::Stopping => {
                let refusal = Refusal::new(
                    Reason::Draining,
                    "the coordinator has stopped; its locks expire when they would have, and its places are kept for 10 s: resume them on another coordinator, or on this one when it is back",
                );
                self.outbox.fail(refusal.into());
                self.abandon();
                self.outbox.flush().await;
            }
        }
    }

    /// Lets go of everything, and says why.
    async fn fail(&mut self, refusal: Refusal) {
        self.outbox.fail(refusal.into());
        self.drop_operations();
        self.holds.clear();
        self.outbox.flush().await;
    }

    /// Releases everything, cancels what waits, and says so.
    async fn close(&mut self, request_id: u64) {
        for acquiring in self.acquiring.values_mut() {
            acquiring.cancel();
        }
        // All of them are noted as given back before the first is waited for.
        let given_back: Vec<Hold> = self
            .holds
            .drain()
            .map(|(_, held)| held.hold.given_back())
            .collect();
        self.cancel_those_in_line();
        // Those that fail go on in the background.
        futures_util::future::join_all(given_back.into_iter().map(Hold::release)).await;
        let patience = self.coordinator.store_timeout();
        // What does not end in time goes on in the background as well.
        let _ = tokio::time::timeout(patience, self.finish()).await;
        self.outbox
            .send(request_id, Response::Closed(SessionClosed {}));
    }

    /// Lets what is under way end. A lock that is granted only now is given back.
    async fn finish(&mut self) {
        self.closing = true;
        loop {
            self.take_turns();
            tokio::select! {
                () = self.inbox.arrived(), if !self.asked.is_empty() => self.on_news().await,
                Some(done) = self.operations.next() => match done {
                    Done::Renewed(_) | Done::Shortened(_) => {}
                    done => self.on_done(done),
                },
                else => return,
            }
        }
    }

    /// Lets go of what is under way: acquires and releases end in the background.
    fn drop_operations(&mut self) {
        self.leave_the_crowd();
        self.asked.clear();
        self.others_in_flight = 0;
        self.operations.clear();
    }

    /// The client may still believe in its locks: leaves them until what it was promised has passed, and not shorter.
    async fn linger(&mut self, shutdown: &Shutdown) {
        self.drop_operations();
        if !self.holds.is_empty() || !self.revoked.is_empty() {
            self.rest(self.lease.promised_until(), shutdown).await;
        }
    }

    /// The client was told that it lost what was revoked, but perhaps has not heard it: leaves that as long as `linger` does.
    async fn outlast(&mut self, shutdown: &Shutdown) {
        if self.revoked.is_empty() {
            return;
        }
        self.drop_operations();
        self.outbox.close();
        self.rest(self.lease.promised_until(), shutdown).await;
    }

    /// There is no stream any more, but what there is stays for a while: whoever resumes it takes its place.
    pub(super) fn goes_on_without_a_stream(&mut self) {
        self.account.stream_ended();
        self.listed.stream_ended();
    }

    async fn rest(&mut self, until: Moment, shutdown: &Shutdown) {
        self.goes_on_without_a_stream();
        loop {
            let rest = clock::now().until(until);
            if rest.is_zero() {
                return;
            }
            tokio::select! {
                biased;
                () = shutdown.stopping.cancelled() => return self.abandon(),
                () = tokio::time::sleep(rest.min(LONGEST_REST)) => {}
            }
        }
    }

    /// Leaves what it holds to expire, and its places in queues for as long as the store keeps them, because the process
    /// ends: the client may still believe in its locks, and can resume all of it on another coordinator. Acquires for which
    /// the client has no ticket are given up.
    pub(super) fn abandon(&mut self) {
        self.places.leave();
        for (_, held) in self.holds.drain() {
            held.hold.leave_to_expire();
        }
        self.revoked.leave_to_expire();
    }
}
