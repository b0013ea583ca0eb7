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
    others::{Other, TIME_TO_PASS_ON},
    relay::Relay,
    watch::{Loss, Watch},
    watchdog::{Action, Cause, Watchdog},
};
use crate::{exit::Exit, outage::Contact, say::say, show::text, signals::Signals};

/// Interval between looks at the session.
const LOOK: Duration = Duration::from_secs(1);

/// Time in which a key has stopped the rest of the tool's group: what is continued before that would stop after it.
const ALL_STOPPED: Duration = Duration::from_millis(20);

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
    let left = watch.left();
    let ttl = ttl.unwrap_or_else(|| left.whole());
    let mut watchdog = Watchdog::new(ttl, order.lease.grace, order.lease.lock_delay);
    if let Some(bound) = left.bound {
        watchdog.bounded(bound);
    }
    let mut contact = Contact::new(order.session);
    let mut suspended = false;
    let mut lost: Option<Loss> = None;
    let mut relay = Relay::default();
    // Processes of the command that can't be stopped, if there may be a need to.
    let mut others: Option<Vec<Other>> = None;
    let mut asked_to_end = None;
    let (mut is_requested, mut was_told) = (false, false);
    let mut is_explained = false;
    let status = loop {
        let now = now();
        let was_suspended = watch.is_suspended();
        let left = watch.left();
        if let Some(news) = contact.news().filter(|_| !order.quiet) {
            say(news);
        }
        report_suspension(watch, &mut suspended);
        if lost.is_none() {
            // The time left of a suspended lock must not be taken for that of a lock that is not renewed.
            watchdog.suspended(was_suspended || suspended);
        }
        // An expired lease is lost, even if the future has not been polled yet.
        if lost.is_none() && left.whole().is_zero() {
            lost = Some(watch.lost().await);
        }
        while let Some(signal) = relay.due(now) {
            child.pass_on(signal);
        }
        // A job may have been brought to the foreground since.
        child.lend_terminal();
        if lost.is_some() && others.is_none() && !others.insert(child.others()).is_empty() {
            watchdog.ask_first(TIME_TO_PASS_ON);
        }
        let held = lost.as_ref().map_or(Ok(left), |loss| Err(loss.reason));
        if let Some(action) = watchdog.check(now, held) {
            // Later they could not be told from processes that are not the command's.
            let others = others.get_or_insert_with(|| child.others());
            child.signal(match action {
                Action::Terminate(_) => Signal::TERM,
                Action::Kill => Signal::KILL,
            });
            explain(watch, action, lost.as_ref().filter(|_| !is_explained));
            is_explained |= lost.is_some();
            if action == Action::Kill && others.iter().any(|other| child.is_led_by(other)) {
                report_others(others);
            }
        }
        let pause = watchdog.pause(now, held.ok()).min(LOOK);
        let pause = relay.pause(now).unwrap_or(pause).min(pause);
        tokio::select! {
            biased;
            change = child.next() => match change? {
                Change::Ended(status) => break status,
                Change::Stopped => child.resume(),
                Change::Witnessed(signal) => relay.witness(self::now(), signal),
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
            signal = signals.next() => match signal {
                libc::SIGTSTP => {
                    sleep(ALL_STOPPED).await;
                    child.resume_ours();
                }
                libc::SIGTTIN => child.ours_want_terminal(),
                signal => {
                    if ASK_TO_END.iter().any(|asking| asking.as_raw() == signal) {
                        asked_to_end = Some(signal);
                    }
                    relay.receive(self::now(), signal, child.has_witness_of(signal));
                }
            },
            () = sleep(pause) => {}
        }
    };
    if watchdog.has_stopped_it() {
        // The command has ended; its remaining child processes are killed.
        child.signal(Signal::KILL);
        let mut others = others.unwrap_or_default();
        if others.iter().any(Other::lives) {
            // Some end because their parent has.
            sleep(TIME_TO_PASS_ON).await;
            report_others(&mut others);
        }
        return Ok(Ended::Stopped { asked_to_end });
    }
    let exit = exit_of(status);
    Ok(match was_told {
        true => Ended::OnRequest { exit, asked_to_end },
        false => Ended::ByItself(exit),
    })
}

/// Reports the processes that could not be stopped, each once.
fn report_others(others: &mut Vec<Other>) {
    let alive = others.drain(..).filter(Other::lives);
    let alive: Vec<_> = alive.map(|other| other.to_string()).collect();
    if !alive.is_empty() {
        say(format_args!(
            "the command's processes of other users can't be stopped by this one, and go on without the lock: {}; end them, and \
             run `sudo leasehold run` rather than `leasehold run` with sudo as its command",
            alive.join(", ")
        ));
    }
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
    } else if !watch.left().whole().is_zero() {
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
        (Action::Terminate(Cause::Lease), None) => say(format_args!(
            "the lease of lock {} is not renewed, so the command is stopped before it runs out",
            watch.names()
        )),
        (Action::Terminate(Cause::Bound), None) => say(format_args!(
            "lock {} will soon have been held for as long as it may be, so the command is stopped",
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
        (None, Some(signal)) => Exit::died_of(signal),
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
