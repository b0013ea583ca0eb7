//! The command's process and its group.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    io,
    os::fd::{BorrowedFd, RawFd},
    process::ExitStatus,
};

use anyhow::anyhow;
use leasehold_client::LockWatch;
use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitId, WaitIdOptions, getpid, getppid, kill_process_group, waitid},
};
use serde_json::json;
use tokio::{
    process::Command,
    signal::unix::{SignalKind, signal},
};

use super::{
    guardian::{self, Guardian},
    order::Order,
    terminal::Foreground,
    watch::Watch,
};
use crate::{
    connection::{TRACEPARENT, TRACESTATE},
    exit::Exit,
    say::say,
};

/// Whether the kernel ends the command if this process is killed. If not, the guardian must.
const HAS_PARENT_DEATH_SIGNAL: bool = cfg!(all(target_os = "linux", not(leasehold_portable)));
/// Variables of the command with its lock, its token, and the tokens of all locks as JSON.
const NAME: &str = "LEASEHOLD_LOCK_NAME";
const TOKEN: &str = "LEASEHOLD_FENCING_TOKEN";
const LOCKS: &str = "LEASEHOLD_LOCKS";
/// Variable of the command with the number of permits that it has of a semaphore.
const PERMITS: &str = "LEASEHOLD_PERMITS";
/// Variable of the command with the election that it leads.
const ELECTION: &str = "LEASEHOLD_ELECTION";

/// A running command. Dropping it kills its group if it has not ended, and gives the terminal back.
pub(super) struct Child {
    process: tokio::process::Child,
    /// Also the id of the process: it leads its group.
    group: Pid,
    foreground: Option<Foreground>,
    stops: Option<tokio::signal::unix::Signal>,
    /// Dismissed when this is dropped, after the group was killed.
    _guardian: Option<Guardian>,
    ended: bool,
}

/// Change of the command's process.
pub(super) enum Change {
    Ended(ExitStatus),
    /// It may have been stopped from the terminal.
    Stopped,
}

/// Starts the command. Must be called on the main thread: the parent-death signal comes when the starting thread ends.
pub(super) fn spawn(order: &Order<'_>, watch: &Watch) -> Result<Child, (Exit, anyhow::Error)> {
    let command = &order.lease.command;
    let program = command.first().map_or(OsStr::new(""), OsString::as_os_str);
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => (Exit::NOT_FOUND, anyhow!("command not found: {program:?}")),
        _ => {
            let error = anyhow::Error::new(source);
            let what = format!("failed to execute {program:?}");
            (Exit::NOT_EXECUTABLE, error.context(what))
        }
    };
    let foreground = Foreground::find();
    let mut prepared = Command::new(program);
    prepared
        .args(command.iter().skip(1))
        .process_group(0)
        .kill_on_drop(true);
    tell(&mut prepared, order, watch);
    let guardian = match Guardian::start() {
        Ok(guardian) => Some(guardian),
        // The parent-death signal ends the command itself, which matters most.
        Err(_) if HAS_PARENT_DEATH_SIGNAL => None,
        Err(source) => {
            let error = format!("failed to start its guardian process: {source}");
            return Err(failed(io::Error::new(source.kind(), error)));
        }
    };
    let line = guardian.as_ref().map(Guardian::line);
    tie_to_parent(&mut prepared, foreground.is_some(), line);
    // Needed only if the terminal's user can stop the command: then the tool must continue it. The tool
    // listens before the command runs, so that it misses no stop.
    let stops = foreground
        .as_ref()
        .and_then(|_| signal(SignalKind::child()).ok());
    // If this fails, the guardian is dismissed: it may watch a process that has ended.
    let process = prepared.spawn().map_err(failed)?;
    let group = process
        .id()
        .and_then(|id| Pid::from_raw(id.cast_signed()))
        .ok_or_else(|| failed(io::Error::other("it has no process id")))?;
    Ok(Child {
        process,
        group,
        foreground,
        stops,
        _guardian: guardian,
        ended: false,
    })
}

/// Sets the command's variables. Removes those that do not apply: they may come from a `run` or an `elect` around this
/// one.
fn tell(command: &mut Command, order: &Order<'_>, watch: &Watch) {
    let locks = watch.locks();
    if let [lock] = locks {
        command
            .env(NAME, lock.name())
            .env(TOKEN, lock.fencing_token().to_string());
    } else {
        command.env_remove(NAME).env_remove(TOKEN);
    }
    match locks.iter().find_map(LockWatch::permits) {
        Some(permits) => command.env(PERMITS, permits.to_string()),
        None => command.env_remove(PERMITS),
    };
    match order.election {
        Some(election) => command.env(ELECTION, election),
        None => command.env_remove(ELECTION),
    };
    // Without one, the command inherits that of this process.
    if let Some(trace) = order.trace {
        command
            .env(TRACEPARENT, trace.to_string())
            .env_remove(TRACESTATE);
    }
    let tokens = locks.iter();
    let tokens = tokens.map(|lock| (lock.name(), lock.fencing_token().get()));
    let tokens: BTreeMap<_, _> = tokens.collect();
    command.env(LOCKS, json!(tokens).to_string());
}

#[expect(
    unsafe_code,
    reason = "`pre_exec` is the only way to set these up in the child"
)]
fn tie_to_parent(command: &mut Command, foreground: bool, guardian: Option<RawFd>) {
    let parent = getpid();
    let prepare = move || {
        if foreground {
            Foreground::give_to(getpid())?;
        }
        if let Some(line) = guardian {
            // SAFETY: the guardian's handle lives until the command has been started, and with it this end of its line.
            guardian::report(unsafe { BorrowedFd::borrow_raw(line) });
        }
        #[cfg(all(target_os = "linux", not(leasehold_portable)))]
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have died before the signal was requested, or before the guardian knew what to watch.
        if getppid() == Some(parent) {
            Ok(())
        } else {
            Err(Errno::SRCH.into())
        }
    };
    // SAFETY: between fork and exec only system calls are made, nothing is allocated and no lock is taken.
    unsafe {
        command.pre_exec(prepare);
    }
}

impl Child {
    /// Waits for the next change. May be dropped and called again.
    pub(super) async fn next(&mut self) -> io::Result<Change> {
        let stops = &mut self.stops;
        let may_have_stopped = async {
            match stops {
                Some(stops) => stops.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            status = self.process.wait() => {
                // The shell that waits for the tool may use the terminal at once.
                self.foreground = None;
                self.ended = true;
                Ok(Change::Ended(status?))
            }
            _ = may_have_stopped => Ok(Change::Stopped),
        }
    }

    /// Sends a signal to the group, if it still exists.
    pub(super) fn signal(&self, signal: Signal) {
        kill_process_group(self.group, signal).ok();
        // A stopped group would not receive it.
        if signal != Signal::KILL {
            kill_process_group(self.group, Signal::CONT).ok();
        }
    }

    /// Passes a signal on that this process received.
    pub(super) fn pass_on(&self, signal: i32) {
        if let Some(signal) = Signal::from_named_raw(signal) {
            kill_process_group(self.group, signal).ok();
        }
    }

    /// Continues the command if the terminal's user has suspended it: it holds a lock, and the shell, which does not
    /// know of its group, could not continue it.
    pub(super) fn resume(&self) {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        let stopped = waitid(WaitId::Pid(self.group), options);
        if let Ok(Some(status)) = stopped
            && status.stopping_signal() == Some(Signal::TSTP.as_raw())
        {
            kill_process_group(self.group, Signal::CONT).ok();
            say("a command that holds a lock can't be suspended; it goes on");
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.ended {
            self.signal(Signal::KILL);
        }
    }
}
