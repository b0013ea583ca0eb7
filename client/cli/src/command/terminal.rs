//! Controlling terminal, whose foreground belongs to one process group at a time.

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd},
};

use rustix::{
    fs::{Mode, OFlags, open},
    process::{Pid, Signal, kill_current_process_group},
    stdio::{stdin, stdout},
    termios::{tcgetpgrp, tcsetpgrp},
};

use crate::signals::Disposition;

/// The controlling terminal, while a command runs. Dropping it takes the foreground back if the command has it.
pub(super) struct Terminal {
    device: OwnedFd,
    ours: Pid,
    /// Whether the command's group was put into the foreground.
    is_given: bool,
    /// SIGTTOU, which is ignored: a process in the background that writes to the terminal, or sets its foreground, would be
    /// stopped, and with it the tool.
    ttou: Disposition,
}

impl Terminal {
    /// Returns the controlling terminal, if there is one: whatever the standard streams are, a command may open it. `None` too if
    /// this process's group is led from outside of its container, since the foreground could not be given back to that.
    pub(super) fn find() -> Option<Self> {
        let ours = own_group()?;
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        Some(Self {
            device: open("/dev/tty", flags, Mode::empty()).ok()?,
            ours,
            is_given: false,
            ttou: Disposition::ignore(libc::SIGTTOU),
        })
    }

    /// Returns whether this process's group is in the foreground.
    pub(super) fn is_ours(&self) -> bool {
        tcgetpgrp(&self.device).ok() == Some(self.ours)
    }

    /// Returns whether the command's group was put into the foreground.
    pub(super) fn is_given(&self) -> bool {
        self.is_given
    }

    /// Notes that the command will put itself into the foreground, and returns how, if it both reads from the terminal and writes
    /// to it. Otherwise another process of this group may need the terminal, such as a pager behind a pipe; the command gets it
    /// when it uses it.
    pub(super) fn give_at_start(&mut self) -> Option<Giving> {
        let in_front = |stream| tcgetpgrp(stream).ok() == Some(self.ours);
        self.is_given = in_front(stdin()) && in_front(stdout());
        self.is_given.then_some(Giving {
            device: self.device.as_raw_fd(),
        })
    }

    /// Puts the command's group into the foreground.
    pub(super) fn give_to(&mut self, group: Pid) {
        self.is_given = tcsetpgrp(&self.device, group).is_ok();
    }

    /// Takes the foreground back, if the command's group was put there.
    pub(super) fn take_back(&mut self) {
        if std::mem::take(&mut self.is_given) {
            tcsetpgrp(&self.device, self.ours).ok();
        }
    }

    /// Sends a signal to this process's group, as the terminal does with its foreground group.
    pub(super) fn signal_ours(&self, signal: Signal) {
        // By its number, a group 1 (in a container) would be every process.
        kill_current_process_group(signal).ok();
    }

    /// Returns how to give the command the disposition of SIGTTOU that this process was started with. Safe between fork and exec.
    pub(super) fn restore(&self) -> impl Fn() + Copy + use<> {
        self.ttou.restore()
    }
}

#[expect(unsafe_code, reason = "rustix panics if the group has no id here")]
fn own_group() -> Option<Pid> {
    // SAFETY: the call has no preconditions.
    Pid::from_raw(unsafe { libc::getpgrp() })
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.take_back();
    }
}

/// Way for the command's process to put itself into the foreground, while [`Terminal`] lives.
#[derive(Clone, Copy)]
pub(super) struct Giving {
    device: RawFd,
}

impl Giving {
    /// Puts a group into the foreground. Safe between fork and exec.
    #[expect(unsafe_code, reason = "nothing is borrowed across a fork")]
    pub(super) fn to(self, group: Pid) -> io::Result<()> {
        // SAFETY: the terminal lives until the command has been started, and with it its descriptor.
        let device = unsafe { BorrowedFd::borrow_raw(self.device) };
        Ok(tcsetpgrp(device, group)?)
    }
}
