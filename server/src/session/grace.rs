//! A session whose peer ended the stream, while the client may still resume it elsewhere.
//!
//! It goes on without a stream: its waiters wait, and what they are granted is kept, as their tickets are enough to resume it.
//! Nothing is renewed; the keys are set to expire when it ends, as its client does not believe in them any longer than that.
//! What it may not have any more is given up at once: its client, whose stream has ended, acts on none of it.

use std::collections::HashSet;

use futures_util::{FutureExt, StreamExt};
use leasehold_core::{command::Reply, id::OwnerId, time::Moment};
use leasehold_store::{LockStore, Stamped, StoreError, clock};

use super::{
    acquires::Stage,
    ending::LONGEST_REST,
    renewal::RETRY,
    requests::Asked,
    revoked::Revoked,
    signals::{Signal, Signals},
    task::{Done, Session},
    wire::Wire,
};

/// For how long what a session holds and waits for is kept without a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    until: Moment,
    /// When to have the keys end with it; `None` if they do.
    shorten_at: Option<Moment>,
}

impl<W: Wire> Session<W> {
    /// Keeps what there is until it was resumed or the grace is over. What is left then is for the session's drop.
    pub(super) async fn keep(&mut self, signals: &mut Signals) {
        let now = clock::now();
        self.revoked = Revoked::default();
        // Who only waits was promised no more than that its heartbeats are heard.
        let promised_until = if self.holds.is_empty() {
            self.lease.silent_at()
        } else {
            self.lease.promised_until()
        };
        let until = promised_until.min(now.after(self.grace));
        if until <= now {
            return;
        }
        self.kept = Some(Kept {
            until,
            shorten_at: Some(now),
        });
        self.goes_on_without_a_stream();
        self.outbox.close();
        // Nothing is renewed from here on.
        self.listed.info().clear_renewal_due();
        self.pending_acks.clear();
        self.short_ack = None;
        self.drop_what_nobody_can_resume();
        loop {
            let now = clock::now();
            let rest = now.until(until);
            if rest.is_zero() || self.holds.is_empty() && self.acquiring.is_empty() {
                return;
            }
            let shorten_in = self.shorten(now);
            tokio::select! {
                biased;
                Some(signal) = signals.next() => match signal {
                    Signal::Stopping => return self.abandon(),
                    Signal::Rights(Ok(granted)) => self.on_rights(granted),
                    // Who it was kept for is nobody any more.
                    Signal::Rights(Err(_)) => return,
                    // It has no stream, renews nothing, and looks at the time below.
                    Signal::Draining | Signal::Ended(_) | Signal::StoreUp | Signal::Suspended => {}
                },
                () = self.inbox.arrived() => self.on_news().await,
                Some(done) = self.operations.next() => self.on_done(done),
                () = tokio::time::sleep(rest.min(shorten_in)) => {}
            }
        }
    }

    /// Acquires whose client was not told a ticket: what they would be granted could not be found by it.
    fn drop_what_nobody_can_resume(&mut self) {
        let mut unanswered: HashSet<u64> = self.leave_the_line().collect();
        self.asked.retain(|_, asked| match asked {
            Asked::Acquire { request_id, .. } => {
                unanswered.insert(*request_id);
                false
            }
            _ => true,
        });
        for request_id in unanswered {
            self.came_back(request_id);
            if let Some(acquiring) = self.acquiring.remove(&request_id) {
                self.end_wanted(&acquiring.wanted);
            }
        }
        for acquiring in self.acquiring.values_mut() {
            // Several names are had together or not at all.
            if acquiring.wanted.is_several() {
                acquiring.cancel();
            }
        }
        debug_assert!(
            self.acquiring
                .values()
                .all(|acquiring| matches!(acquiring.stage, Stage::InLine(_)))
        );
    }

    /// Has the keys end when the grace does, once no renewal is under way. Gives when to look again.
    fn shorten(&mut self, now: Moment) -> std::time::Duration {
        let Some(kept) = &mut self.kept else {
            return LONGEST_REST;
        };
        let Some(at) = kept.shorten_at else {
            return LONGEST_REST;
        };
        if self.renewing || now < at {
            return now.until(at).max(RETRY).min(LONGEST_REST);
        }
        kept.shorten_at = None;
        let rest = now.until(kept.until);
        if self.holds.is_empty() || rest.is_zero() {
            return LONGEST_REST;
        }
        self.renewing = true;
        let coordinator = self.coordinator.clone();
        let (owners, commands): (Vec<OwnerId>, Vec<_>) = self
            .holds
            .values()
            .map(|held| {
                let op = held.hold.shortening(rest);
                let command = coordinator.command(held.hold.name().clone(), op);
                (*held.hold.owner(), command)
            })
            .unzip();
        self.operations.push(
            async move {
                let results = coordinator.store().execute_all(commands).await;
                Done::Shortened(owners.into_iter().zip(results).collect())
            }
            .boxed(),
        );
        LONGEST_REST
    }

    pub(super) fn on_shortened(&mut self, results: Vec<(OwnerId, Result<Stamped, StoreError>)>) {
        self.renewing = false;
        let mut lost = Vec::new();
        for (owner, result) in results {
            match result.map(|stamped| stamped.executed.reply) {
                Ok(Reply::Lost(loss)) => lost.push((owner, loss)),
                Ok(_) => {}
                Err(_) => {
                    self.coordinator.metrics().store_errors.inc();
                    self.shorten_later(clock::now().after(RETRY));
                }
            }
        }
        self.lose(lost);
    }

    /// Something was granted, or not shortened, while the session is kept.
    pub(super) fn shorten_later(&mut self, at: Moment) {
        if let Some(kept) = &mut self.kept {
            kept.shorten_at = Some(at);
        }
    }
}
