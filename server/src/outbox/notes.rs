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
        let client = info.map(|info| info.client_name.as_str());
        match note {
            Note::Granted => {
                metrics.grants.inc();
            }
            Note::HandedOff(request, sent_at) => {
                following.handed_off(request, || sent_at.until(clock::now()));
            }
            Note::Moved(request) => following.moved(request),
            // It lives on where it was resumed.
            Note::Lost(.., LostWhy::Store(Loss::Resumed)) => {}
            // Its clean-up finds out whether it was resumed elsewhere, and counts it if not.
            Note::Lost(.., LostWhy::Store(Loss::Expired)) => {}
            Note::Lost(name, _, LostWhy::Store(loss)) => {
                metrics.lost(&name, client, convert::lost_reason_label(loss));
            }
            Note::Expired(name, _) => metrics.lost(&name, client, "expired"),
            Note::Lost(name, _, LostWhy::Revoked) => {
                metrics.lost(&name, client, "permission_revoked");
            }
            Note::Lost(name, _, LostWhy::MaxHold) => metrics.lost(&name, client, "max_hold"),
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
