//! Printer of a stream of events, a line for each, until the user ends it.

use std::io::{self, Write};

use leasehold_client::{Failure, LeaderChange, LockWatchEvent, LockWatcher, Observer};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::time::sleep;

use crate::{
    exit::{Exit, Outcome},
    outage::{LOOK, Outage},
};

/// Source of events, over reconnects.
pub(crate) trait Source {
    type Item;

    /// Waits for the next event. May be dropped and called again.
    async fn next(&mut self) -> Option<Result<Self::Item, Failure>>;

    /// Returns why no events come now, if so.
    fn interruption(&self) -> Option<&Failure>;
}

impl Source for Observer {
    type Item = LeaderChange;

    async fn next(&mut self) -> Option<Result<LeaderChange, Failure>> {
        self.next().await
    }

    fn interruption(&self) -> Option<&Failure> {
        self.interruption()
    }
}

impl Source for LockWatcher {
    type Item = LockWatchEvent;

    async fn next(&mut self) -> Option<Result<LockWatchEvent, Failure>> {
        self.next().await
    }

    fn interruption(&self) -> Option<&Failure> {
        self.interruption()
    }
}

/// Prints a line for each event. Fails with `what` as the context if no coordinator is reachable at the start; waits for
/// one that goes away later. Ends when the reader of the lines is gone.
pub(crate) async fn follow<S: Source>(
    mut source: S,
    what: String,
    mut line: impl FnMut(&S::Item) -> anyhow::Result<String>,
) -> Outcome {
    let mut outage = Outage::default();
    let mut told = false;
    loop {
        tokio::select! {
            biased;
            item = source.next() => match item {
                Some(Ok(item)) => {
                    told = true;
                    // A gap comes when the connection is lost, every other event over a connection.
                    if source.interruption().is_none() {
                        outage.is_over();
                    }
                    if !print(&line(&item)?)? {
                        return Ok(Exit::Success);
                    }
                }
                Some(Err(failure)) => return Err(anyhow::Error::new(failure).context(what)),
                None => return Ok(Exit::Success),
            },
            () = sleep(LOOK) => {
                if reader_is_gone() {
                    return Ok(Exit::Success);
                }
                match source.interruption() {
                    Some(failure) if !told => {
                        return Err(anyhow::Error::new(failure.clone()).context(what));
                    }
                    Some(failure) => outage.goes_on(&failure.to_string()),
                    None => outage.is_over(),
                }
            }
        }
    }
}

/// Prints a line at once. Returns false if the reader is gone.
fn print(line: &str) -> io::Result<bool> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{line}").and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns whether standard output is a pipe without a reader. Without events, it may be long until a write would fail.
fn reader_is_gone() -> bool {
    let stdout = io::stdout();
    // `poll` reports errors without being asked for them.
    let mut asked = [PollFd::new(&stdout, PollFlags::empty())];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut asked, Some(&at_once)).is_ok() && asked[0].revents().contains(PollFlags::ERR)
}
