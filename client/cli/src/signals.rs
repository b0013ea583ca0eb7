//! Signals that the tool waits for, so that they do not end it.

use std::{future::poll_fn, io, mem::MaybeUninit, task::Poll};

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Signals, except those that were ignored when the tool was started (by `nohup`, for example): these stay ignored, also
/// for the processes that the tool starts.
pub(crate) struct Signals {
    streams: Vec<(i32, Signal)>,
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

    /// Runs `work` unless a signal comes before it is done. Fails with the signal's number; dropping the work cancels it.
    pub(crate) async fn or<T>(&mut self, work: impl Future<Output = T>) -> Result<T, i32> {
        tokio::select! {
            biased;
            signal = self.next() => Err(signal),
            done = work => Ok(done),
        }
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
