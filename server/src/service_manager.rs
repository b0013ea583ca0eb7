//! Notifications to the service manager, such as systemd: `sd_notify(3)`. Does nothing if the environment names none
//! (`NOTIFY_SOCKET`).

use std::{future, time::Duration};

use sd_notify::NotifyState;

use crate::Liveness;

/// Tells that it serves, after a start or a reload.
pub fn ready() {
    tell(&[NotifyState::Ready, NotifyState::Status("serving")]);
}

/// Tells that the configuration is read anew; [`ready`] follows, whatever comes of it.
pub fn reloading() {
    // Units of `Type=notify-reload` go by the time.
    let mut states = vec![NotifyState::Reloading];
    states.extend(NotifyState::monotonic_usec_now());
    tell(&states);
}

/// Tells that it goes away, which takes the drain time-out and a little.
pub fn stopping() {
    tell(&[NotifyState::Stopping, NotifyState::Status("draining")]);
}

/// Tells as often as the service manager wants to hear it (`WatchdogSec=`) that the coordinator lives, while it does. Never ends.
pub async fn watchdog(liveness: Liveness) {
    let Some(limit) = sd_notify::watchdog_enabled().filter(|limit| *limit > Duration::ZERO) else {
        return future::pending().await;
    };
    let mut ticks = tokio::time::interval(limit / 3);
    loop {
        ticks.tick().await;
        if liveness.check().is_ok() {
            tell(&[NotifyState::Watchdog]);
        }
    }
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "failed to tell the service manager; is NOTIFY_SOCKET right?");
    }
}
