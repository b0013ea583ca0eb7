//! Metrics and traces of what happens to a session.

use leasehold_core::{
    command::Loss,
    session::{LostWhy, Note},
};
use leasehold_store::clock;

use super::Outbox;
use crate::{convert, sessions::SessionInfo};

impl Outbox {
    /// Counts something that happened to the session, whose entry in the list is `info`.
    pub fn note(&mut self, note: Note, info: Option<&SessionInfo>) {
        let (metrics, following) = (&self.metrics, &mut self.following);
        match note {
            Note::Granted => {
                metrics.grants.inc();
            }
            Note::HandedOff(request, sent_at) => {
                following.handed_off(request, || sent_at.until(clock::now()));
            }
            Note::Moved(request) => following.moved(request),
            // It lives on where it was resumed.
            Note::Lost(_, LostWhy::Store(Loss::Resumed)) => {}
            Note::Lost(_, LostWhy::Store(loss)) => {
                metrics.count_lost(convert::lost_reason_label(loss))
            }
            Note::Lost(_, LostWhy::Revoked) => metrics.count_lost("permission_revoked"),
            Note::Lost(_, LostWhy::MaxHold) => metrics.count_lost("max_hold"),
            Note::Resumed => {
                metrics.resumed.inc();
            }
            Note::RenewalSent(holds) => {
                if let Some(info) = info {
                    info.set_renewal_due(clock::now());
                }
                following.renews(holds);
            }
            Note::RenewalEnded {
                renewed,
                lost,
                failed,
                is_late,
            } => {
                metrics.renewals.inc_by(renewed as u64);
                metrics.store_errors.inc_by(failed as u64);
                following.renewed(lost, failed > 0);
                if let Some(due) = info
                    .filter(|_| !is_late)
                    .and_then(|info| info.clear_renewal_due())
                {
                    metrics.clocks.renewed(due);
                }
            }
            Note::NothingToRenew => {
                if let Some(info) = info {
                    info.clear_renewal_due();
                }
            }
            Note::NotShortened(failed) => {
                metrics.store_errors.inc_by(failed as u64);
            }
        }
    }
}
