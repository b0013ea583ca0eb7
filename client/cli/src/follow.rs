//! Printer of a stream of events, a line for each, until the user ends it.

use std::io::{self, Write};

use leasehold_client::{Failure, LeaderChange, LockNews, LockWatcher, Observer};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::time::sleep;

use crate::{
    exit::{Exit, Outcome},
    outage::{LOOK, Outage},
};

/// What tells what happens, over reconnects.
pub(crate) trait Source {
    type Item;

    /// What is told next. May be dropped and called again.
    async fn next(&mut self) -> Option<Result<Self::Item, Failure>>;

    /// Why nothing is told at present.
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
    type Item = LockNews;

    async fn next(&mut self) -> Option<Result<LockNews, Failure>> {
        self.next().await
    }

    fn interruption(&self) -> Option<&Failure> {
        self.interruption()
    }
}

/// Prints a line for everything that is told. `what` says what could not be done if there is no coordinator at the
/// start; one that goes away later is waited for. Ends when nobody reads the lines any more.
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
                    // A gap is told when the connection is lost, everything else when there is one.
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

/// Prints a line at once, whoever reads it. False if nobody does any more.
fn print(line: &str) -> io::Result<bool> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{line}").and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether standard output is a pipe that has no reader: where little happens, it may be long until the next line.
fn reader_is_gone() -> bool {
    let stdout = io::stdout();
    // Errors are told unasked.
    let mut asked = [PollFd::new(&stdout, PollFlags::empty())];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut asked, Some(&at_once)).is_ok() && asked[0].revents().contains(PollFlags::ERR)
}
