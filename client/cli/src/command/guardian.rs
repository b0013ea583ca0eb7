//! Guardian process that outlives a killed `run` or `elect`. On Linux the parent-death signal reaches the command alone, and the
//! guardian ends all other processes of its group. Other systems have no such signal: there the guardian ends the whole group.
//!
//! Only KILL ends the guardian: a service manager that stops all processes of a unit must not leave the group unguarded. On
//! Linux it also tells of the signals of such a stop.

use std::{
    env,
    ffi::OsString,
    future::pending,
    io::{self, BufRead, Write},
    net::Shutdown,
    os::{
        fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd},
        unix::net::UnixStream,
    },
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
};

use rustix::{
    net::{SendFlags, send},
    process::{Pid, Signal, getpid, getppid, kill_process_group},
};

use super::others::{TIME_TO_PASS_ON, others};
use crate::signals;

/// The hidden first argument that makes this program a guardian.
pub(crate) const GUARDIAN: &str = "__guardian";
/// The name of the guardian in listings of processes.
const NAME: &str = "lock-guardian";
/// Flag with which writing to a guardian that is gone fails rather than raising SIGPIPE. Apple systems have an option of the
/// socket for that instead.
#[cfg(not(target_vendor = "apple"))]
const QUIETLY: SendFlags = SendFlags::NOSIGNAL;
#[cfg(target_vendor = "apple")]
const QUIETLY: SendFlags = SendFlags::empty();
/// Message that dismisses the guardian when the command has ended.
const DISMISSED: &str = "dismissed";

/// Whether a process learns who sent a signal.
const KNOWS_SENDERS: bool = cfg!(all(target_os = "linux", not(leasehold_portable)));

/// The guardian as seen from the process that it watches. Dropping it dismisses the guardian.
pub(super) struct Guardian {
    process: Child,
    /// Closed by the kernel when this process ends, however it ends; no other program has it open.
    line: UnixStream,
    /// The same, for what the guardian says. `None` once it has ended.
    words: Option<tokio::net::UnixStream>,
}

impl Guardian {
    /// Starts one.
    #[expect(
        unsafe_code,
        reason = "nothing else blocks a child's signals before it runs"
    )]
    pub(super) fn start() -> io::Result<Self> {
        use std::os::unix::process::CommandExt;

        let (line, its_end) = UnixStream::pair()?;
        #[cfg(target_vendor = "apple")]
        rustix::net::sockopt::set_socket_nosigpipe(&line, true)?;
        line.set_nonblocking(true)?;
        let words = tokio::net::UnixStream::from_std(line.try_clone()?)?;
        let parent = getppid().map_or(0, Pid::as_raw_pid);
        let mut guardian = Command::new(own_program()?);
        guardian
            .arg0(NAME)
            .arg(GUARDIAN)
            .arg(parent.to_string())
            .stdin(OwnedFd::from(its_end))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        // SAFETY: the function is async-signal-safe.
        unsafe {
            guardian.pre_exec(|| {
                signals::block_all();
                Ok(())
            });
        }
        Ok(Self {
            process: guardian.spawn()?,
            line,
            words: Some(words),
        })
    }

    /// Returns whether it tells of the signals that a service manager sends it.
    pub(super) fn is_witness(&self) -> bool {
        KNOWS_SENDERS && self.words.is_some()
    }

    /// Waits for a signal that a service manager sends the guardian. May be dropped and called again.
    pub(super) async fn witnessed(&mut self) -> i32 {
        while let Some(words) = &self.words {
            let mut signal = [0];
            match words
                .readable()
                .await
                .and_then(|()| words.try_read(&mut signal))
            {
                Ok(1) => return signal[0].into(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                _ => self.words = None,
            }
        }
        pending().await
    }

    /// Returns the descriptor over which [`report`] says which group to watch. Valid for as long as this lives.
    pub(super) fn line(&self) -> RawFd {
        self.line.as_raw_fd()
    }
}

impl Drop for Guardian {
    /// Ends the guardian without killing the group.
    fn drop(&mut self) {
        writeln!(self.line, "{DISMISSED}").ok();
        self.line.shutdown(Shutdown::Both).ok();
        self.process.wait().ok();
    }
}

/// Tells a guardian to watch the group that the calling process leads. The command's process does so itself, before it
/// becomes the command, because the process that started it could be killed first. Safe between fork and exec.
pub(super) fn report(line: BorrowedFd<'_>) {
    let mut text = [0; 12];
    let mut rest = &mut text[..];
    // Formatting a number allocates nothing.
    writeln!(rest, "{}", getpid().as_raw_nonzero()).ok();
    let length = 12 - rest.len();
    // If the guardian has ended, SIGPIPE must not end this process.
    send(line, &text[..length], QUIETLY).ok();
}

/// Returns this program. Linux keeps it for as long as it runs, also if an upgrade has replaced the file since.
fn own_program() -> io::Result<PathBuf> {
    match cfg!(target_os = "linux") {
        true => Ok("/proc/self/exe".into()),
        false => env::current_exe(),
    }
}

/// Runs the guardian: reads which group to watch, and kills it when its input ends without the dismissal. `parent` is the parent
/// of the process that it watches.
pub(crate) fn guardian(parent: Option<OsString>) {
    let parent = parent.and_then(|parent| parent.to_str()?.parse().ok());
    tell_of_stops(parent);
    let mut lines = io::stdin().lock().lines().map_while(Result::ok);
    let group = lines.next().and_then(|line| line.parse().ok());
    let Some(group) = group.and_then(Pid::from_raw) else {
        return;
    };
    if lines.next().as_deref() != Some(DISMISSED) {
        // These are out of its reach, but those that started them may pass TERM on.
        if !others(group).is_empty() {
            kill_process_group(group, Signal::TERM).ok();
            thread::sleep(TIME_TO_PASS_ON);
        }
        kill_process_group(group, Signal::KILL).ok();
    }
}

/// Tells of each signal that comes from a service manager: process 1, or the parent of the process that is watched. Any other
/// sender may mean the tool alone, as `pkill` does.
#[cfg(all(target_os = "linux", not(leasehold_portable)))]
#[expect(unsafe_code, reason = "rustix has this only with another feature")]
fn tell_of_stops(parent: Option<i32>) {
    // So that nobody who looks for the tool by its name finds the guardian.
    // SAFETY: the name is a string that ends with a zero.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, c"lock-guardian".as_ptr());
    }
    thread::spawn(move || {
        while let Some((signal, sender)) = signals::wait_for_any() {
            if (sender == 1 || Some(sender) == parent)
                && let Ok(signal) = u8::try_from(signal)
            {
                send(io::stdin(), &[signal], QUIETLY).ok();
            }
        }
    });
}

#[cfg(not(all(target_os = "linux", not(leasehold_portable))))]
fn tell_of_stops(_parent: Option<i32>) {}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests fail by panicking")]
mod tests {
    use std::{io::Read, os::fd::AsFd};

    use super::*;

    #[test]
    fn a_process_reports_its_id_in_a_line() {
        let (line, mut its_end) = UnixStream::pair().unwrap();
        report(line.as_fd());
        drop(line);
        let mut said = String::new();
        its_end.read_to_string(&mut said).unwrap();
        assert_eq!(said, format!("{}\n", std::process::id()));
        // Nobody listens any more: nothing happens.
        let (line, its_end) = UnixStream::pair().unwrap();
        drop(its_end);
        report(line.as_fd());
    }
}
