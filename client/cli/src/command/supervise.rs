//! Supervisor of the command: waits for it, passes signals on, and stops it when a lock is lost.

use std::{io, process::ExitStatus, time::Duration};

use leasehold_client::ReleaseRequest;
use rustix::{
    process::Signal,
    time::{ClockId, clock_gettime},
};
use tokio::time::sleep;

use super::{
    child::{Change, Child},
    order::{Ended, Order},
    watch::{Loss, Watch},
    watchdog::{Action, Watchdog},
};
use crate::{exit::Exit, outage::Contact, say::say, show::text, signals::Signals};

/// Interval between looks at the session.
const LOOK: Duration = Duration::from_secs(1);

/// Signals that ask the tool to end, whatever the command does about them.
const ASK_TO_END: [Signal; 3] = [Signal::INT, Signal::TERM, Signal::QUIT];

pub(super) async fn supervise(
    child: &mut Child,
    watch: &Watch,
    signals: &mut Signals,
    order: &Order<'_>,
) -> io::Result<Ended> {
    // The TTL may change after a reconnect. If the connection is gone already, the time left stands for it.
    let ttl = order.session.info().map(|info| info.ttl);
    let ttl = ttl.unwrap_or_else(|| watch.lost_in());
    let mut watchdog = Watchdog::new(ttl, order.lease.grace, order.lease.lock_delay);
    let mut contact = Contact::new(order.session);
    let mut suspended = false;
    let mut lost: Option<Loss> = None;
    let mut asked_to_end = None;
    let (mut is_requested, mut was_told) = (false, false);
    let status = loop {
        let now = now();
        let was_suspended = watch.is_suspended();
        let left = watch.lost_in();
        if let Some(news) = contact.news().filter(|_| !order.quiet) {
            say(news);
        }
        report_suspension(watch, &mut suspended);
        if lost.is_none() {
            // The time left of a suspended lock must not be taken for that of a lock that is not renewed.
            watchdog.suspended(was_suspended || suspended);
        }
        // An expired lease is lost, even if the future has not been polled yet.
        if lost.is_none() && left.is_zero() {
            lost = Some(watch.lost().await);
        }
        let held = lost.as_ref().map_or(Ok(left), |loss| Err(loss.reason));
        if let Some(action) = watchdog.check(now, held) {
            child.signal(match action {
                Action::Terminate => Signal::TERM,
                Action::Kill => Signal::KILL,
            });
            explain(watch, action, lost.as_ref());
        }
        tokio::select! {
            biased;
            change = child.next() => match change? {
                Change::Ended(status) => break status,
                Change::Stopped => child.resume(),
            },
            loss = watch.lost(), if lost.is_none() => lost = Some(loss),
            (name, request) = watch.requested(), if !is_requested => {
                is_requested = true;
                if !order.quiet {
                    report_request(&name, &request);
                }
                if let Some(signal) = order.lease.on_request {
                    was_told = true;
                    child.signal(signal.into());
                }
            }
            signal = signals.next() => {
                if ASK_TO_END.iter().any(|asking| asking.as_raw() == signal) {
                    asked_to_end = Some(signal);
                }
                child.pass_on(signal);
            }
            () = sleep(watchdog.pause(now, held.ok()).min(LOOK)) => {}
        }
    };
    if watchdog.has_stopped_it() {
        // The command has ended; its remaining child processes are killed.
        child.signal(Signal::KILL);
        return Ok(Ended::Stopped { asked_to_end });
    }
    let exit = exit_of(status);
    Ok(match was_told {
        true => Ended::OnRequest { exit, asked_to_end },
        false => Ended::ByItself(exit),
    })
}

/// Reports that an operator asks for the release of a lock.
fn report_request(name: &str, request: &ReleaseRequest) {
    let within = match request.time_left() {
        Some(left) => format!(" within {}", text::duration(left)),
        None => String::new(),
    };
    let reason = match request.reason() {
        "" => String::new(),
        reason => format!(": {reason}"),
    };
    say(format_args!(
        "an operator asks for the release of lock {name:?}{within}{reason}"
    ));
}

/// Reports that the lock became suspended, or is held again.
fn report_suspension(watch: &Watch, suspended: &mut bool) {
    let now = watch.is_suspended();
    if now == std::mem::replace(suspended, now) {
        return;
    }
    if now {
        say(format_args!(
            "the connection broke; lock {} is suspended, and the command goes on while it can be resumed",
            watch.names()
        ));
    } else if !watch.lost_in().is_zero() {
        say(format_args!("lock {} is held again", watch.names()));
    }
}

fn explain(watch: &Watch, action: Action, lost: Option<&Loss>) {
    match (action, lost) {
        (_, Some(Loss { name, reason })) => {
            say(format_args!(
                "lock {name:?} was lost, so the command is stopped: {reason}"
            ));
        }
        (Action::Terminate, None) => say(format_args!(
            "the lease of lock {} is not renewed, so the command is stopped before it runs out",
            watch.names()
        )),
        (Action::Kill, None) => {
            say("the command did not end in time, so it is killed");
        }
    }
}

fn exit_of(status: ExitStatus) -> Exit {
    use std::os::unix::process::ExitStatusExt;

    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::of_command(code),
        (None, Some(signal)) => Exit::signal(signal),
        (None, None) => Exit::FAILURE,
    }
}

/// Returns the time of a monotonic clock that counts suspended time.
fn now() -> Duration {
    #[cfg(all(
        any(target_os = "linux", target_os = "android", target_os = "openbsd"),
        not(leasehold_portable)
    ))]
    let time = clock_gettime(ClockId::Boottime);
    // On Apple systems, this clock counts suspended time.
    #[cfg(not(all(
        any(target_os = "linux", target_os = "android", target_os = "openbsd"),
        not(leasehold_portable)
    )))]
    let time = clock_gettime(ClockId::Monotonic);
    Duration::try_from(time).unwrap_or_default()
}
