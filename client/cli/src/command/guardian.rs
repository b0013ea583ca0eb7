//! Guardian process that outlives a killed `run` or `elect`. On Linux the parent-death signal reaches the command alone, and the
//! guardian ends all other processes of its group. Other systems have no such signal: there the guardian ends the whole group.

use std::{
    env,
    io::{self, BufRead, Write},
    net::Shutdown,
    os::{
        fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd},
        unix::net::UnixStream,
    },
    process::{Child, Command, Stdio},
};

use rustix::{
    net::{SendFlags, send},
    process::{Pid, Signal, getpid, kill_process_group},
};

/// The hidden first argument that makes this program a guardian.
pub(crate) const GUARDIAN: &str = "__guardian";
/// Flag with which writing to a guardian that is gone fails rather than raising SIGPIPE. Apple systems have an option of the
/// socket for that instead.
#[cfg(not(target_vendor = "apple"))]
const QUIETLY: SendFlags = SendFlags::NOSIGNAL;
#[cfg(target_vendor = "apple")]
const QUIETLY: SendFlags = SendFlags::empty();
/// Message that dismisses the guardian when the command has ended.
const DISMISSED: &str = "dismissed";

/// The guardian as seen from the process that it watches. Dropping it dismisses the guardian.
pub(super) struct Guardian {
    process: Child,
    /// Closed by the kernel when this process ends, however it ends; no other program has it open.
    line: UnixStream,
}

impl Guardian {
    /// Starts one.
    pub(super) fn start() -> io::Result<Self> {
        use std::os::unix::process::CommandExt;

        let (line, its_end) = UnixStream::pair()?;
        #[cfg(target_vendor = "apple")]
        rustix::net::sockopt::set_socket_nosigpipe(&line, true)?;
        let process = Command::new(env::current_exe()?)
            .arg(GUARDIAN)
            .stdin(OwnedFd::from(its_end))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        Ok(Self { process, line })
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

/// Runs the guardian: reads which group to watch, and kills it when its input ends without the dismissal.
pub(crate) fn guardian() {
    let mut lines = io::stdin().lock().lines().map_while(Result::ok);
    let group = lines.next().and_then(|line| line.parse().ok());
    let Some(group) = group.and_then(Pid::from_raw) else {
        return;
    };
    if lines.next().as_deref() != Some(DISMISSED) {
        kill_process_group(group, Signal::KILL).ok();
    }
}

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
