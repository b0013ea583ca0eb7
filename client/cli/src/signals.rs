//! Signals that the tool waits for, so that they do not end it.

use std::{future::poll_fn, io, mem::MaybeUninit, task::Poll};

use rustix::process::{Resource, Rlimit, Signal, getpid, getrlimit, kill_process, setrlimit};
use tokio::signal::unix::{self, SignalKind, signal};

/// Signals, except those that were ignored when the tool was started (by `nohup`, for example): these stay ignored, also
/// for the processes that the tool starts.
pub(crate) struct Signals {
    streams: Vec<(i32, unix::Signal)>,
}

impl Signals {
    pub(crate) fn listen(kinds: impl IntoIterator<Item = SignalKind>) -> io::Result<Self> {
        let mut streams = Vec::new();
        for kind in kinds {
            let number = kind.as_raw_value();
            if !is_ignored(number) {
                streams.push((number, signal(kind)?));
            }
        }
        Ok(Self { streams })
    }

    /// Waits for the next signal, and returns its number.
    pub(crate) async fn next(&mut self) -> i32 {
        poll_fn(|cx| {
            for (number, stream) in &mut self.streams {
                if stream.poll_recv(cx).is_ready() {
                    return Poll::Ready(*number);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Waits for the next signal that is not of the terminal's job control. Those have their usual effect.
    async fn asked_to_end(&mut self) -> i32 {
        loop {
            match self.next().await {
                libc::SIGTSTP | libc::SIGTTIN => {
                    kill_process(getpid(), Signal::STOP).ok();
                }
                signal => return signal,
            }
        }
    }

    /// Runs `work` unless a signal comes before it is done. Fails with the signal's number; dropping the work cancels it.
    pub(crate) async fn or<T>(&mut self, work: impl Future<Output = T>) -> Result<T, i32> {
        tokio::select! {
            biased;
            signal = self.asked_to_end() => Err(signal),
            done = work => Ok(done),
        }
    }
}

/// Resets what the parent process may have left: an ignored SIGCHLD, with which the end of a command can't be waited for, and
/// blocked signals, which would never arrive. To be called before there are other threads.
#[expect(
    unsafe_code,
    reason = "neither the standard library nor rustix sets signal dispositions and masks"
)]
pub(crate) fn reset() {
    let mut none = MaybeUninit::uninit();
    // SAFETY: the default disposition runs no code, and `sigemptyset` initialises the set before it is read.
    unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        libc::sigemptyset(none.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut());
    }
}

/// Blocks all signals of this thread and of the programs that it becomes. Safe between fork and exec.
#[expect(
    unsafe_code,
    reason = "neither the standard library nor rustix sets signal masks"
)]
pub(crate) fn block_all() {
    let mut all = MaybeUninit::uninit();
    // SAFETY: `sigfillset` initialises the set before it is read.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), std::ptr::null_mut());
    }
}

/// Waits for a signal, all of which are blocked. Returns it with the process that sent it: 0 if the kernel did, or a process
/// outside of this container.
#[cfg(all(target_os = "linux", not(leasehold_portable)))]
#[expect(
    unsafe_code,
    reason = "neither the standard library nor rustix tells who sent a signal"
)]
pub(crate) fn wait_for_any() -> Option<(i32, i32)> {
    let mut all = MaybeUninit::uninit();
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    // SAFETY: `sigfillset` initialises the set before it is read; `info` is valid however little of it is written, and the
    // sender is read only if a process sent the signal.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        loop {
            let signal = libc::sigwaitinfo(all.as_ptr(), info.as_mut_ptr());
            if signal > 0 {
                let info = info.assume_init();
                let by_process = [libc::SI_USER, libc::SI_QUEUE].contains(&info.si_code);
                return Some((signal, if by_process { info.si_pid() } else { 0 }));
            }
            if std::io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                return None;
            }
        }
    }
}

/// Disposition of a signal that is ignored while this lives. Dropping it restores the one before.
pub(crate) struct Disposition {
    signal: i32,
    before: libc::sighandler_t,
}

#[expect(
    unsafe_code,
    reason = "neither the standard library nor rustix sets signal dispositions"
)]
impl Disposition {
    pub(crate) fn ignore(signal: i32) -> Self {
        // SAFETY: ignoring runs no code.
        let before = unsafe { libc::signal(signal, libc::SIG_IGN) };
        Self { signal, before }
    }

    /// Returns how to restore it in a process that was forked from this one. Safe between fork and exec.
    pub(crate) fn restore(&self) -> impl Fn() + Copy + use<> {
        let (signal, before) = (self.signal, self.before);
        move || {
            // SAFETY: what was there before was right before.
            unsafe { libc::signal(signal, before) };
        }
    }
}

impl Drop for Disposition {
    fn drop(&mut self) {
        self.restore()();
    }
}

/// Ends this process by a signal. Returns if the kernel does not let it: the signal has no default effect on a process 1.
#[expect(
    unsafe_code,
    reason = "neither the standard library nor rustix sets signal dispositions"
)]
pub(crate) fn die_of(signal: i32) {
    // QUIT would leave a core dump of the tool.
    let none = Rlimit {
        current: Some(0),
        maximum: getrlimit(Resource::Core).maximum,
    };
    setrlimit(Resource::Core, none).ok();
    // SAFETY: the default disposition runs no code.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// Returns whether a signal is ignored.
#[expect(
    unsafe_code,
    reason = "neither the standard library nor rustix tells what is done about a signal"
)]
fn is_ignored(number: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: without a new action nothing changes, and what is there is written if the call succeeds.
    unsafe {
        libc::sigaction(number, std::ptr::null(), action.as_mut_ptr()) == 0
            && action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ignored_signal_is_told_from_one_that_is_not() {
        // Rust's runtime ignores it.
        assert!(is_ignored(libc::SIGPIPE));
        assert!(!is_ignored(libc::SIGURG));
    }
}
