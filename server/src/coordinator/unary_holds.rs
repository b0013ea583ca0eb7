//! Task that finds the ends of the unary calls' holds for the audit log: no session renews them, so that nobody else would notice
//! that one has expired. It looks at a lock once the time of a hold that was granted here is over.

use std::time::Duration;

use leasehold_core::{
    command::{Op, Reply},
    id::FencingToken,
    name::LockName,
    view::{HolderView, NameView},
};
use leasehold_store::{Store, clock};
use tokio_util::sync::CancellationToken;

use super::Coordinator;
use crate::alarm::Alarm;

/// Added to the time at which a hold ends by this coordinator's clock: by then the store has let it expire.
const SLACK: Duration = Duration::from_millis(50);
/// Time before another look, if the store did not answer or did not show all holders.
const RETRY: Duration = Duration::from_secs(10);

/// Looks until it is stopped.
pub(super) async fn run(coordinator: Coordinator, stop: CancellationToken) {
    let audit = coordinator.audit();
    let mut alarm = Alarm::new(clock::now());
    loop {
        let now = clock::now();
        while let Some((owner, name, token)) = audit.take_due(now) {
            match stands_for(&coordinator, &name, token).await {
                Some(Duration::ZERO) => audit.not_seen(&owner),
                Some(left) => audit.stands_until(owner, clock::now().after(left)),
                None => audit.stands_until(owner, clock::now().after(RETRY)),
            }
        }
        alarm.set(audit.next_due(), clock::now());
        tokio::select! {
            () = stop.cancelled() => return,
            () = audit.due_changed() => {}
            () = alarm.rings() => {}
        }
    }
}

/// Returns for how long the hold with this token stands, zero if it is over, and `None` if that is not known.
async fn stands_for(
    coordinator: &Coordinator,
    name: &LockName,
    token: FencingToken,
) -> Option<Duration> {
    let store: &Store = coordinator.store();
    let command = coordinator.command(name.clone(), Op::view(0));
    let answer = store.execute(command).await.ok()?;
    let Reply::Seen(view) = answer.executed.reply else {
        return None;
    };
    left(&view, token)
}

fn left(view: &NameView, token: FencingToken) -> Option<Duration> {
    let mut holds = view.holders.iter().filter_map(|holder| match holder {
        HolderView::Ours(hold) => Some(hold),
        HolderView::Foreign { .. } => None,
    });
    match holds.find(|hold| hold.token == token) {
        Some(hold) if hold.is_over() => Some(Duration::ZERO),
        Some(hold) => Some(hold.expires_in + SLACK),
        None if view.holder_count > view.holders.len() as u64 => None,
        None => Some(Duration::ZERO),
    }
}
