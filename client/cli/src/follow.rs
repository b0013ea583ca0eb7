//! Printer of a stream of events, a line for each, until the user ends it.

use std::io;

use leasehold_client::Failure;
use rustix::event::PollFlags;
use tokio::time::sleep;

use crate::{
    exit::{Exit, Outcome},
    outage::{LOOK, Outage},
    say::poll,
    show,
};

/// Prints a line for each item that `next` finds at the source; `interruption` says why none comes now. Fails with `what`
/// as the context if no coordinator is reachable at the start; waits for one that goes away later. Ends when the reader of
/// the lines has gone.
pub(crate) async fn follow<S, T>(
    mut source: S,
    next: impl AsyncFn(&mut S) -> Option<Result<T, Failure>>,
    interruption: impl Fn(&S) -> Option<&Failure>,
    what: String,
    mut line: impl FnMut(&T) -> serde_json::Result<String>,
) -> Outcome {
    let mut outage = Outage::default();
    let mut told = false;
    loop {
        tokio::select! {
            biased;
            item = next(&mut source) => match item {
                Some(Ok(item)) => {
                    told = true;
                    // A gap comes when the connection is lost, every other event over a connection.
                    if interruption(&source).is_none() {
                        outage.is_over();
                    }
                    if !show::line(&line(&item)?)? {
                        return Ok(Exit::SUCCESS);
                    }
                }
                Some(Err(failure)) => return Err(anyhow::Error::new(failure).context(what)),
                None => return Ok(Exit::SUCCESS),
            },
            () = sleep(LOOK) => {
                if reader_is_gone() {
                    return Ok(Exit::SUCCESS);
                }
                match interruption(&source) {
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

/// Returns whether standard output is a pipe without a reader. Without events, it may be long until a write would fail.
fn reader_is_gone() -> bool {
    // The system reports errors without being asked for them.
    poll(&io::stdout(), PollFlags::empty()).contains(PollFlags::ERR)
}
