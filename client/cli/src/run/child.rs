//! The command's process and its group.

use std::{
    ffi::{OsStr, OsString},
    io,
    process::ExitStatus,
};

use leasehold_client::LockGuard;
use rustix::{
    io::Errno,
    process::{
        Pid, Signal, WaitId, WaitIdOptions, getpid, getppid, kill_process_group,
        set_parent_process_death_signal, waitid,
    },
};
use serde_json::Value;
use tokio::{
    process::Command,
    signal::unix::{SignalKind, signal},
};

use super::{guardian::Guardian, terminal::Foreground};

/// The variables that tell the command its lock and its token, and those of all locks as JSON.
const NAME: &str = "LEASEHOLD_LOCK_NAME";
const TOKEN: &str = "LEASEHOLD_FENCING_TOKEN";
const LOCKS: &str = "LEASEHOLD_LOCKS";

/// Why a command could not be started.
#[derive(Debug)]
pub(super) enum SpawnError {
    NotFound {
        command: OsString,
    },
    Other {
        command: OsString,
        source: io::Error,
    },
}

impl std::fmt::Display for SpawnError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotFound { command } => write!(f, "there is no command {command:?}"),
            Self::Other { command, .. } => write!(f, "failed to execute {command:?}"),
        }
    }
}

impl std::error::Error for SpawnError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NotFound { .. } => None,
            Self::Other { source, .. } => Some(source),
        }
    }
}

/// A running command. Dropping it kills its group if it has not ended, and gives the terminal back.
pub(super) struct Child {
    process: tokio::process::Child,
    /// Also the id of the process: it leads its group.
    group: Pid,
    foreground: Option<Foreground>,
    stops: Option<tokio::signal::unix::Signal>,
    guardian: Option<Guardian>,
    ended: bool,
}

/// What happens to a command.
pub(super) enum Change {
    Ended(ExitStatus),
    /// It may have been stopped from the terminal.
    Stopped,
}

/// Starts the command. Must be called on the main thread: the parent-death signal comes when the starting thread ends.
pub(super) fn spawn(command: &[OsString], guards: &[LockGuard]) -> Result<Child, SpawnError> {
    let program = command.first().map_or(OsStr::new(""), OsString::as_os_str);
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => SpawnError::NotFound {
            command: program.to_owned(),
        },
        _ => SpawnError::Other {
            command: program.to_owned(),
            source,
        },
    };
    let foreground = Foreground::find();
    let mut prepared = Command::new(program);
    prepared
        .args(command.iter().skip(1))
        .process_group(0)
        .kill_on_drop(true);
    tell(&mut prepared, guards);
    tie_to_parent(&mut prepared, foreground.is_some());
    // Only where the terminal's user could stop it: then somebody has to start it again. Listened for
    // from before it runs, so that no stop is missed.
    let stops = foreground
        .as_ref()
        .and_then(|_| signal(SignalKind::child()).ok());
    let mut guardian = Guardian::start();
    let process = prepared.spawn().map_err(failed)?;
    let group = process
        .id()
        .and_then(|id| Pid::from_raw(id.cast_signed()))
        .ok_or_else(|| failed(io::Error::other("it has no process id")))?;
    if let Some(guardian) = &mut guardian {
        guardian.watch(group);
    }
    Ok(Child {
        process,
        group,
        foreground,
        stops,
        guardian,
        ended: false,
    })
}

/// Tells the command what it runs under.
fn tell(command: &mut Command, guards: &[LockGuard]) {
    if let [guard] = guards {
        command
            .env(NAME, guard.name())
            .env(TOKEN, guard.fencing_token().to_string());
    } else {
        // They may come from a `run` around this one.
        command.env_remove(NAME).env_remove(TOKEN);
    }
    let tokens = guards.iter().map(|guard| {
        let token = guard.fencing_token().get();
        (guard.name().to_owned(), Value::from(token))
    });
    command.env(LOCKS, Value::Object(tokens.collect()).to_string());
}

#[expect(
    unsafe_code,
    reason = "`pre_exec` is the only way to set these up in the child"
)]
fn tie_to_parent(command: &mut Command, foreground: bool) {
    let parent = getpid();
    let prepare = move || {
        if foreground {
            Foreground::give_to(getpid())?;
        }
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // It may have died before the signal was asked for.
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
    /// What happens to it next. May be dropped and called again.
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
                // Whoever waits for us may use the terminal at once.
                self.foreground = None;
                self.ended = true;
                Ok(Change::Ended(status?))
            }
            _ = may_have_stopped => Ok(Change::Stopped),
        }
    }

    /// Sends a signal to the group. A group that is gone needs none.
    pub(super) fn signal(&self, signal: Signal) {
        kill_process_group(self.group, signal).ok();
        // A stopped one would not hear of it.
        if signal != Signal::KILL {
            kill_process_group(self.group, Signal::CONT).ok();
        }
    }

    /// Passes a signal on that was sent to us.
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
            eprintln!("leasehold: a command that holds a lock can't be suspended; it goes on");
            kill_process_group(self.group, Signal::CONT).ok();
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.ended {
            self.signal(Signal::KILL);
        }
        if let Some(guardian) = self.guardian.take() {
            guardian.dismiss();
        }
    }
}
