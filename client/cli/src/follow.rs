//! Printer of a stream of events, a line for each, until the user ends it.

use std::io;

use anyhow::Context;
use leasehold_client::Failure;
use rustix::event::PollFlags;
use tokio::time::sleep;

use crate::{
    exit::{Exit, Outcome},
    outage::{LOOK, WatcherContact},
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
    let mut contact = WatcherContact::default();
    loop {
        tokio::select! {
            biased;
            item = next(&mut source) => match item {
                Some(Ok(item)) => {
                    contact.told(interruption(&source));
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
                contact.looked(interruption(&source)).with_context(|| what.clone())?;
            }
        }
    }
}

/// Returns whether standard output is a pipe without a reader. Without events, it may be long until a write would fail.
fn reader_is_gone() -> bool {
    // The system reports errors without being asked for them.
    poll(&io::stdout(), PollFlags::empty()).contains(PollFlags::ERR)
}
