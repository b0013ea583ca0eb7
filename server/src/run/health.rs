//! Health of the coordinator, as gRPC health, readiness and metrics report it.

use std::time::Duration;

use leasehold_store::{Status as StoreStatus, Store, clock};
use tokio::{
    sync::watch,
    time::{Instant, MissedTickBehavior, interval_at},
};
use tokio_util::sync::CancellationToken;
use tonic_health::{ServingStatus, server::HealthReporter};

use crate::{
    admin_http::Readiness,
    sessions::{LateRenewals, Sessions},
    telemetry::Metrics,
};

/// The services that follow the coordinator's health, and all of them together.
const SERVED: [&str; 4] = [
    "",
    "leasehold.v1.AdminService",
    "leasehold.v1.ElectionService",
    "leasehold.v1.LockService",
];
/// Reason why a draining coordinator is not ready.
const DRAINING: &str = "draining";
/// Interval between looks at the sessions.
const LOOK: Duration = Duration::from_secs(1);
/// Longest time that a renewal may take, however long the session's TTL is.
const PATIENCE: Duration = Duration::from_secs(10);

/// Sources that health follows.
#[derive(Debug)]
pub(super) struct Followed {
    pub(super) store: Store,
    /// The time-out of a command to it.
    pub(super) store_timeout: Duration,
    pub(super) sessions: Sessions,
    pub(super) metrics: Metrics,
    /// Cancelled when the coordinator drains.
    pub(super) leaving: CancellationToken,
}

/// Waits until health reports that this coordinator drains. The sessions learn of it afterwards, so that no load balancer sends
/// their clients back here.
pub(super) async fn said_to_be_leaving(mut ready: watch::Receiver<Readiness>) {
    // An error means that the task of health has ended with the process.
    let _ = ready.wait_for(|state| state.reason == DRAINING).await;
}

/// Keeps gRPC health, readiness and their metrics in step with the store, with the sessions' renewals, and with draining.
pub(super) async fn follow_health(
    followed: Followed,
    reporter: HealthReporter,
    readiness: watch::Sender<Readiness>,
    background: CancellationToken,
) {
    let leaving = &followed.leaving;
    let mut status = followed.store.status();
    let mut looks = interval_at(Instant::now() + LOOK, LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut late = LateRenewals::default();
    let mut was_up = false;
    let mut told = None;
    loop {
        let current = status.borrow_and_update().clone();
        let is_up = current.is_up();
        if was_up && !is_up {
            followed.metrics.store_outages.inc();
        }
        was_up = is_up;
        let refused = followed.metrics.meter.refusals();
        let state = judge(&current, &late, refused, leaving.is_cancelled());
        followed.metrics.store_up.set(i64::from(is_up));
        followed
            .metrics
            .draining
            .set(i64::from(leaving.is_cancelled()));
        followed.metrics.ready.set(i64::from(state.ready));
        followed
            .metrics
            .late_renewals
            .set(i64::try_from(late.sessions).unwrap_or(i64::MAX));
        tell(&reporter, &readiness, &mut told, state).await;
        tokio::select! {
            () = background.cancelled() => return,
            () = leaving.cancelled(), if !leaving.is_cancelled() => {}
            Ok(()) = status.changed() => {}
            due = looks.tick() => {
                followed.metrics.scheduling_lag.set(due.elapsed().as_secs_f64());
                late = followed.look();
            }
        }
    }
}

impl Followed {
    fn look(&self) -> LateRenewals {
        let patience = |ttl: Duration| {
            (ttl / 3)
                .max(self.store_timeout)
                .min(PATIENCE.max(self.store_timeout))
        };
        self.sessions.late_renewals(clock::now(), patience)
    }
}

/// Returns whether the coordinator serves, or all reasons why not. One whose store refuses commands serves, as long as it renews:
/// without it, a balancer could cut off sessions whose locks are still kept.
fn judge(
    store: &StoreStatus,
    late: &LateRenewals,
    refused: Vec<String>,
    is_leaving: bool,
) -> Readiness {
    if is_leaving {
        return Readiness::not_ready(DRAINING);
    }
    let mut reasons = Vec::new();
    if let StoreStatus::Down { cause, reason } = store {
        reasons.push(format!("{reason}{}", cause.advice()));
    }
    if late.sessions > 0 {
        let of = match late.sessions {
            1 => "1 session".to_owned(),
            many => format!("{many} sessions"),
        };
        reasons.push(format!(
            "the renewals of {of} are late, the oldest has been due for {:.1} s",
            late.oldest.as_secs_f64()
        ));
    }
    let serves = reasons.is_empty();
    reasons.extend(refused);
    let reasons = reasons.join("; ");
    if serves {
        Readiness::ready_although(reasons)
    } else {
        Readiness::not_ready(reasons)
    }
}

/// Publishes the readiness, and logs its changes; `told` is the previous one.
async fn tell(
    reporter: &HealthReporter,
    readiness: &watch::Sender<Readiness>,
    told: &mut Option<bool>,
    state: Readiness,
) {
    let before = told.replace(state.ready);
    if before != Some(state.ready) {
        let serving = if state.ready {
            ServingStatus::Serving
        } else {
            ServingStatus::NotServing
        };
        for service in SERVED {
            reporter.set_service_status(service, serving).await;
        }
        if state.ready {
            tracing::info!("ready to serve");
        } else if before.is_some() && state.reason != DRAINING {
            tracing::warn!(reason = state.reason, "not ready to serve");
        }
    }
    readiness.send_if_modified(|before| {
        let changed = *before != state;
        *before = state;
        changed
    });
}

#[cfg(test)]
mod tests {
    use leasehold_store::redis::status::DownCause;

    use super::*;

    #[test]
    fn everything_that_is_wrong_is_told() {
        let up = StoreStatus::Up { epoch: 1 };
        let down = StoreStatus::Down {
            cause: DownCause::TimedOut,
            reason: "Redis did not answer".into(),
        };
        let late = LateRenewals {
            sessions: 2,
            oldest: Duration::from_millis(1250),
        };
        let none = LateRenewals::default();
        let judged = |store, late, refused: &[&str]| {
            let refused = refused.iter().map(|&it| it.to_owned());
            judge(store, late, refused.collect(), false)
        };
        assert_eq!(judged(&up, &none, &[]), Readiness::ready());
        let refused = Readiness::ready_although("Redis is full; Redis is a replica");
        let kinds = ["Redis is full", "Redis is a replica"];
        assert_eq!(judged(&up, &none, &kinds), refused);
        let silent = "Redis did not answer (docs/doctor.md#store-unreachable)";
        assert_eq!(judged(&down, &none, &[]), Readiness::not_ready(silent));
        let reason = "the renewals of 2 sessions are late, the oldest has been due for 1.2 s";
        assert_eq!(judged(&up, &late, &[]), Readiness::not_ready(reason));
        let both = Readiness::not_ready(format!("{silent}; {reason}; Redis is full"));
        assert_eq!(judged(&down, &late, &kinds[..1]), both);
        let leaving = judge(&down, &late, Vec::new(), true);
        assert_eq!(leaving, Readiness::not_ready(DRAINING));
    }
}
