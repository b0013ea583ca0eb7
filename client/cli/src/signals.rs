//! Signals that are waited for rather than died of.

use std::{future::poll_fn, io, task::Poll};

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Some signals, except for what was ignored when the tool was started (by `nohup`, say): that stays ignored, also for
/// what the tool starts.
pub(crate) struct Signals {
    streams: Vec<(i32, Signal)>,
}

impl Signals {
    pub(crate) fn listen(kinds: impl IntoIterator<Item = SignalKind>) -> io::Result<Self> {
        let ignored = std::fs::read_to_string("/proc/self/status")
            .map(|status| ignored_mask(&status))
            .unwrap_or(0);
        let mut streams = Vec::new();
        for kind in kinds {
            let number = kind.as_raw_value();
            if ignored & (1 << (number - 1)) == 0 {
                streams.push((number, signal(kind)?));
            }
        }
        Ok(Self { streams })
    }

    /// The number of the next signal.
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
}

/// The set of ignored signals in the text of `/proc/<pid>/status`: bit n - 1 for signal n.
fn ignored_mask(status: &str) -> u64 {
    status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ignored_signals_are_read_from_the_status_of_the_process() {
        assert_eq!(
            ignored_mask("Name:\tx\nSigIgn:\t0000000000001001\n"),
            0x1001
        );
        assert_eq!(ignored_mask("Name:\tx\n"), 0);
    }
}
