//! The command's process and its group.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    io,
    os::{
        fd::{BorrowedFd, RawFd},
        unix::process::ExitStatusExt,
    },
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
    others::{Other, others},
    terminal::{Giving, Terminal},
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

/// Said when a key, or a signal, would suspend the command or the tool.
const CANNOT_BE_SUSPENDED: &str = "a command that holds a lock can't be suspended; it goes on";

/// A running command. Dropping it kills its group if it has not ended, and takes the terminal back.
pub(super) struct Child {
    process: tokio::process::Child,
    /// Also the id of the process: it leads its group.
    group: Pid,
    terminal: Option<Terminal>,
    /// Whether the command is stopped because it wants the terminal.
    wants_terminal: bool,
    /// The same of another process of the tool's own group.
    ours_want_terminal: bool,
    stops: Option<tokio::signal::unix::Signal>,
    /// Dismissed when this is dropped, after the group was killed.
    guardian: Option<Guardian>,
    ended: bool,
    /// Last signal that this process sent to the group.
    sent: Option<Signal>,
}

/// Change of the command's process.
pub(super) enum Change {
    Ended(ExitStatus),
    /// It may have been stopped from the terminal.
    Stopped,
    /// A service manager sent this signal to the guardian, and with it to all processes.
    Witnessed(i32),
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
    let mut terminal = Terminal::find();
    let giving = terminal.as_mut().and_then(Terminal::give_at_start);
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
    let restore = terminal.as_ref().map(Terminal::restore);
    tie_to_parent(&mut prepared, giving, restore, line);
    // Needed only if the terminal can stop the command. The tool listens before the command runs, so that it misses no stop.
    let stops = terminal
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
        terminal,
        wants_terminal: false,
        ours_want_terminal: false,
        stops,
        guardian,
        ended: false,
        sent: None,
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
fn tie_to_parent(
    command: &mut Command,
    giving: Option<Giving>,
    restore: Option<impl Fn() + Copy + Send + Sync + 'static>,
    guardian: Option<RawFd>,
) {
    let parent = getpid();
    let prepare = move || {
        // While SIGTTOU is ignored.
        if let Some(giving) = giving {
            giving.to(getpid())?;
        }
        if let Some(restore) = restore {
            restore();
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
        let guardian = &mut self.guardian;
        let witnessed = async {
            match guardian {
                Some(guardian) => guardian.witnessed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            status = self.process.wait() => {
                let status = status?;
                self.ended = true;
                self.return_terminal(status);
                Ok(Change::Ended(status))
            }
            _ = may_have_stopped => Ok(Change::Stopped),
            signal = witnessed => Ok(Change::Witnessed(signal)),
        }
    }

    /// Sends a signal to the group, if it still exists.
    pub(super) fn signal(&mut self, signal: Signal) {
        self.sent = Some(signal);
        kill_process_group(self.group, signal).ok();
        // A stopped group would not receive it.
        if signal != Signal::KILL {
            kill_process_group(self.group, Signal::CONT).ok();
        }
    }

    /// Returns whether the guardian would tell of a signal that all processes got. Keys send INT and QUIT to the terminal's
    /// foreground alone.
    pub(super) fn has_witness_of(&self, signal: i32) -> bool {
        let by_key = self.terminal.is_some() && [libc::SIGINT, libc::SIGQUIT].contains(&signal);
        !by_key && self.guardian.as_ref().is_some_and(Guardian::is_witness)
    }

    /// Returns the processes of other users that the command runs.
    pub(super) fn others(&self) -> Vec<Other> {
        others(self.group)
    }

    /// Returns whether this is the process that was started as the command.
    pub(super) fn is_led_by(&self, other: &Other) -> bool {
        other.id == self.group
    }

    /// Passes a signal on that this process received.
    pub(super) fn pass_on(&mut self, signal: i32) {
        if let Some(signal) = Signal::from_named_raw(signal) {
            self.signal(signal);
        }
    }

    /// Takes the terminal back at the end of the command: the shell that waits for the tool may use it at once. If a key ended
    /// the command, the terminal has told the command's group alone, and the rest of the tool's group, such as the shell of
    /// a script, is told now.
    fn return_terminal(&mut self, status: ExitStatus) {
        let Some(mut terminal) = self.terminal.take() else {
            return;
        };
        let by_key = [Signal::INT, Signal::QUIT];
        let by_key = by_key
            .into_iter()
            .find(|key| status.signal() == Some(key.as_raw()))
            // The command alone was meant.
            .filter(|key| self.sent != Some(*key));
        let was_given = terminal.is_given();
        terminal.take_back();
        if let Some(signal) = by_key.filter(|_| was_given) {
            terminal.signal_ours(signal);
        }
        if self.ours_want_terminal {
            terminal.signal_ours(Signal::CONT);
        }
    }

    /// Finds out why the command may have stopped, and continues it: it holds a lock, and the shell, which does not know of its
    /// group, could not continue it.
    pub(super) fn resume(&mut self) {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        let Ok(Some(status)) = waitid(WaitId::Pid(self.group), options) else {
            return;
        };
        match status.stopping_signal().and_then(Signal::from_named_raw) {
            Some(Signal::TSTP) => {
                kill_process_group(self.group, Signal::CONT).ok();
                say(CANNOT_BE_SUSPENDED);
            }
            Some(Signal::TTIN | Signal::TTOU) => {
                self.wants_terminal = true;
                self.lend_terminal();
                if self.wants_terminal {
                    say(format_args!(
                        "the command has stopped, and keeps the lock, until it gets the terminal: bring `leasehold` to the \
                         foreground, or end it and redirect the command's input"
                    ));
                }
            }
            _ => {}
        }
    }

    /// Continues what a key has suspended in the tool's own group: the tool goes on, and a pipeline is of use only as a whole.
    pub(super) fn resume_ours(&self) {
        if let Some(terminal) = &self.terminal {
            terminal.signal_ours(Signal::CONT);
        }
        say(CANNOT_BE_SUSPENDED);
    }

    /// Notes that another process of the tool's group was stopped because it wants the terminal, such as a pager.
    pub(super) fn ours_want_terminal(&mut self) {
        self.ours_want_terminal = true;
        self.lend_terminal();
    }

    /// Hands the terminal to those who were stopped because they want it, if the tool's job is in the foreground.
    pub(super) fn lend_terminal(&mut self) {
        let Some(terminal) = &mut self.terminal else {
            return;
        };
        if self.ours_want_terminal && (terminal.is_ours() || terminal.is_given()) {
            self.ours_want_terminal = false;
            terminal.take_back();
            terminal.signal_ours(Signal::CONT);
        }
        if self.wants_terminal && (terminal.is_ours() || terminal.is_given()) {
            self.wants_terminal = false;
            terminal.give_to(self.group);
            kill_process_group(self.group, Signal::CONT).ok();
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
