//! The task behind each connection: dials, watches over what it dialled, and dials again.

use std::{sync::Arc, time::Duration};

use redis::Value;
use tokio::{
    select,
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval, sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tracing::{info, warn};

use super::{
    dial::{Dialled, Purpose, dial},
    place::Place,
    replies::unfit,
    slot::{Live, Slot},
    status::{DownCause, Fault},
    url::RedisTarget,
};
use crate::measure::Meter;

/// The pause before the second dial in a row, doubled for each further one.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);

/// The longest pause between dials: a server that is back is found within this and the time that a dial takes.
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// A connection that lasted this long is redialled without a pause, once.
const STEADY: Duration = Duration::from_secs(1);

/// Patience of a connection's task: see [`LinkOptions`](super::link::LinkOptions).
#[derive(Clone, Copy, Debug)]
pub(super) struct Timing {
    pub(super) dial_timeout: Duration,
    pub(super) command_timeout: Duration,
    pub(super) ping_interval: Duration,
}

/// Parts of one connection's task.
pub(super) struct Upkeep {
    pub(super) slot: Arc<Slot>,
    pub(super) place: Place,
    pub(super) purpose: Purpose,
    pub(super) timing: Timing,
    /// Notes what the server refuses.
    pub(super) meter: Meter,
    /// Whether this task warns when Redis may evict our keys: one per link does.
    pub(super) warns_of_eviction: bool,
}

impl Upkeep {
    /// Keeps the connection up until this future is dropped, which closes it.
    pub(super) async fn run(mut self) {
        let mut failures = 0;
        let mut attempt = 0;
        let mut warned_of = None;
        // Given-up connections whose last replies are still worth reading.
        let mut outgoing = JoinSet::new();
        loop {
            let target = match self.place.target() {
                Ok(target) => target,
                Err(fault) => {
                    self.slot.set_down(fault);
                    self.place.changed().await;
                    continue;
                }
            };
            let dialled = select! {
                biased;
                () = self.place.left(&target) => {
                    failures = 0;
                    continue;
                }
                dialled = dial(&target, &self.purpose, self.timing.dial_timeout, attempt) => dialled,
            };
            match dialled {
                Ok(Dialled {
                    connection,
                    driver,
                    memory_policy,
                    run,
                    overflow,
                    ..
                }) => {
                    if self.warns_of_eviction {
                        warn_of_eviction(&target, memory_policy, &mut warned_of);
                    }
                    let since = Instant::now();
                    let live = self.slot.set_up(connection, run);
                    let (fault, driver) = self.watch_over(&target, live, driver, overflow).await;
                    if let Some(driver) = driver {
                        if self.may_still_answer(&fault) {
                            outgoing.spawn(timeout(self.timing.command_timeout, driver));
                        } else {
                            // It has ended before the next connection begins, so what they tell has one order.
                            driver.abort();
                            let _ = driver.await;
                        }
                    }
                    if fault.cause == DownCause::Moved || since.elapsed() >= STEADY {
                        self.place.doubt();
                        failures = 0;
                        continue;
                    }
                }
                Err(fault) => self.slot.set_down(fault),
            }
            self.place.doubt();
            select! {
                biased;
                () = self.place.left(&target) => failures = 0,
                () = sleep(pause(failures)) => failures += 1,
            }
            attempt += 1;
            while outgoing.try_join_next().is_some() {}
        }
    }

    /// Returns whether the server may still answer the commands in flight: only one that refuses does. The others are cut off.
    fn may_still_answer(&self, fault: &Fault) -> bool {
        matches!(self.purpose, Purpose::Commands { .. })
            && matches!(
                fault.cause,
                DownCause::NotMaster | DownCause::Loading | DownCause::Login | DownCause::Busy
            )
    }

    /// Returns when the connection was given up, with the reason, and with its driver if that still runs.
    async fn watch_over(
        &mut self,
        target: &RedisTarget,
        live: Arc<Live>,
        mut driver: AbortOnDropHandle<()>,
        overflow: CancellationToken,
    ) -> (Fault, Option<AbortOnDropHandle<()>>) {
        let server = target.label();
        let mut ticks = interval(self.timing.ping_interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let fault = select! {
                biased;
                fault = self.slot.until_given_up() => return (fault, Some(driver)),
                _ = &mut driver => {
                    let fault = Fault::new(DownCause::Lost, format!("{server} closed the connection"));
                    self.slot.give_up(live.id, fault.clone());
                    return (fault, None);
                }
                () = self.place.left(target) => {
                    let reason = format!("{server} is no longer the master");
                    Some(Fault::new(DownCause::Moved, reason))
                }
                () = overflow.cancelled() => {
                    let reason = format!("more came from {server} than was read");
                    Some(Fault::new(DownCause::Overflow, reason))
                }
                _ = ticks.tick() => None,
            };
            if let Some(fault) = fault {
                self.slot.give_up(live.id, fault);
                continue;
            }
            if live.take_heard() {
                continue;
            }
            select! {
                biased;
                fault = self.slot.until_given_up() => return (fault, Some(driver)),
                // The loop sees to it.
                () = self.place.left(target) => {}
                pinged = ping(&server, &live, self.timing.command_timeout, &self.meter) => if let Err(fault) = pinged {
                    self.slot.give_up(live.id, fault);
                }
            }
        }
    }
}

/// Sends a ping. An error is an answer, too, unless it says that the server can't be used: Redis refuses pings while its disk
/// fails.
async fn ping(server: &str, live: &Live, patience: Duration, meter: &Meter) -> Result<(), Fault> {
    let mut connection = live.connection.clone();
    let command = redis::cmd("PING");
    let Ok(reply) = timeout(patience, connection.send_packed_command(&command)).await else {
        let millis = patience.as_millis();
        let reason = format!("{server} left a ping unanswered for {millis} ms");
        return Err(Fault::new(DownCause::TimedOut, reason));
    };
    match reply {
        Ok(Value::ServerError(error)) if unfit(&error).is_some() => {
            return Err(Fault::answered(&server, &error));
        }
        Ok(Value::ServerError(error)) => meter.refused(&server, &error),
        Ok(_) => {}
        Err(error) => {
            let reason = format!("the connection to {server} broke: {error}");
            return Err(Fault::new(DownCause::Lost, reason));
        }
    }
    live.answered();
    // What we heard of ourselves is no reason to leave out the next ping.
    live.take_heard();
    Ok(())
}

fn warn_of_eviction(
    target: &RedisTarget,
    policy: Option<String>,
    warned_of: &mut Option<Option<String>>,
) {
    // Once for each policy rather than for each reconnect.
    if warned_of.as_ref() == Some(&policy) {
        return;
    }
    let server = target.label();
    match policy.as_deref() {
        Some("noeviction") => {}
        Some(policy) => warn!(
            "{server} has maxmemory-policy {policy}: when its memory is full it deletes locks that are held; set \
             maxmemory-policy noeviction there"
        ),
        None => info!(
            "{server} does not tell its maxmemory-policy, as its user may ask neither INFO nor CONFIG; any other than noeviction \
             deletes locks that are held when its memory is full"
        ),
    }
    *warned_of = Some(policy);
}

/// Returns the pause after this many failures in a row, shortened at random by up to half so that many coordinators do not come
/// back all at once.
fn pause(failures: u32) -> Duration {
    let pause = SHORTEST_PAUSE
        .saturating_mul(1 << failures.min(8))
        .min(LONGEST_PAUSE);
    pause.mul_f64(0.5 + fastrand::f64() / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound() {
        for failures in [0, 1, 2, 3, 8, 9, 31, 32, u32::MAX] {
            let longest =
                Duration::from_millis(250).min(Duration::from_millis(50) * (1 << failures.min(8)));
            for _ in 0..100 {
                let pause = pause(failures);
                assert!(
                    pause >= longest / 2 && pause <= longest,
                    "{pause:?} after {failures} failures"
                );
            }
        }
    }
}
