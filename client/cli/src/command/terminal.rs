//! Terminal's foreground, which belongs to one process group at a time.

use std::{io, mem::MaybeUninit};

use rustix::{
    process::{Pid, getpgrp},
    stdio::stdin,
    termios::{isatty, tcgetpgrp, tcsetpgrp},
};

/// Foreground of the terminal on standard input. While this lives, the command's group has it; dropping this gives it back
/// to the tool's.
pub(super) struct Foreground {
    ours: Pid,
}

impl Foreground {
    /// Returns `None` if the tool is not in the foreground of a terminal.
    pub(super) fn find() -> Option<Self> {
        let ours = getpgrp();
        let in_front = isatty(stdin()) && tcgetpgrp(stdin()).ok() == Some(ours);
        // Lazy, because dropping one takes the terminal.
        in_front.then(|| Self { ours })
    }

    /// Puts a group into the foreground. Safe between fork and exec.
    pub(super) fn give_to(group: Pid) -> io::Result<()> {
        // A background process that sets the foreground group is stopped, unless it blocks SIGTTOU.
        without_ttou(|| tcsetpgrp(stdin(), group))?;
        Ok(())
    }
}

impl Drop for Foreground {
    fn drop(&mut self) {
        Self::give_to(self.ours).ok();
    }
}

#[expect(
    unsafe_code,
    reason = "neither the standard library nor rustix offers signal masks"
)]
fn without_ttou<T>(action: impl FnOnce() -> T) -> T {
    // SAFETY: the sets are initialised by `sigemptyset` and `pthread_sigmask` before they are read; all of these
    // functions are async-signal-safe, and the thread's mask is put back as it was.
    unsafe {
        let mut ttou = MaybeUninit::uninit();
        let mut before = MaybeUninit::uninit();
        libc::sigemptyset(ttou.as_mut_ptr());
        libc::sigaddset(ttou.as_mut_ptr(), libc::SIGTTOU);
        let blocked =
            libc::pthread_sigmask(libc::SIG_BLOCK, ttou.as_ptr(), before.as_mut_ptr()) == 0;
        let result = action();
        if blocked {
            libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut());
        }
        result
    }
}
