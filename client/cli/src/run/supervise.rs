//! Waits for the command, passes signals on, and stops it when a lock is lost.

use std::{process::ExitStatus, time::Duration};

use anyhow::Context;
use rustix::{
    process::Signal,
    time::{ClockId, clock_gettime},
};
use tokio::time::sleep;

use super::{
    child::{Change, Child},
    held::{Loss, Watch},
    watchdog::{Action, Watchdog},
};
use crate::{
    exit::{Exit, Outcome},
    signals::Signals,
};

pub(super) async fn supervise(
    child: &mut Child,
    watch: &Watch,
    signals: &mut Signals,
    ttl: Duration,
    lock_delay: Duration,
) -> Outcome {
    let mut watchdog = Watchdog::new(ttl, lock_delay);
    let mut lost: Option<Loss> = None;
    let status = loop {
        let now = now();
        let left = watch.valid_for();
        // A lease that has run out is lost, though the future has not been polled yet.
        if lost.is_none() && left.is_zero() {
            lost = Some(watch.lost().await);
        }
        let held = lost.as_ref().map_or(Ok(left), |loss| Err(loss.reason));
        if let Some(action) = watchdog.check(now, held) {
            explain(watch, action, lost.as_ref());
            child.signal(match action {
                Action::Terminate => Signal::TERM,
                Action::Kill => Signal::KILL,
            });
        }
        tokio::select! {
            biased;
            change = child.next() => match change.context("failed to wait for the command")? {
                Change::Ended(status) => break status,
                Change::Stopped => child.resume(),
            },
            loss = watch.lost(), if lost.is_none() => lost = Some(loss),
            signal = signals.next() => child.pass_on(signal),
            () = sleep(watchdog.pause(now, held.ok())) => {}
        }
    };
    if watchdog.has_stopped_it() {
        // The command is gone; what it had started goes with it.
        child.signal(Signal::KILL);
        return Ok(Exit::LockLost);
    }
    Ok(exit_of(status))
}

fn explain(watch: &Watch, action: Action, lost: Option<&Loss>) {
    match (action, lost) {
        (_, Some(Loss { name, reason })) => {
            eprintln!("leasehold: lock {name:?} was lost, so the command is stopped: {reason}");
        }
        (Action::Terminate, None) => eprintln!(
            "leasehold: the lease of lock {} is not renewed, so the command is stopped before it runs out",
            watch.names()
        ),
        (Action::Kill, None) => {
            eprintln!("leasehold: the command did not end in time, so it is killed");
        }
    }
}

fn exit_of(status: ExitStatus) -> Exit {
    use std::os::unix::process::ExitStatusExt;

    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Command(u8::try_from(code).unwrap_or(u8::MAX)),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Failure,
    }
}

/// A monotonic clock that counts suspended time.
fn now() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(seconds, nanos)
}
