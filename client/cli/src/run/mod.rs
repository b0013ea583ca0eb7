//! `run`: a command under a lock, or under several.

mod held;
mod options;
mod progress;
mod waiting;

pub(crate) use options::{HELP, RunOptions};

use leasehold_client::AcquireError;

use self::waiting::Wait;
use crate::{
    command::{self, Ended, Order},
    connection::Connection,
    exit::{Exit, Outcome},
    report::report,
};

/// Acquires the locks, runs the command, and releases the locks.
pub(crate) async fn run(connection: &Connection, options: RunOptions) -> Outcome {
    let mut signals = command::signals()?;
    let mut wait = Wait::begin(options.wait);
    let connecting = waiting::connect(connection, &options, &mut wait);
    let client = match signals.or(connecting).await {
        Ok(connected) => connected?,
        Err(signal) => return Ok(Exit::died_of(signal)),
    };
    let acquiring = waiting::acquire(&client, &options, &mut wait);
    let held = match signals.or(acquiring).await {
        Ok(Ok(held)) => held,
        Ok(Err(error)) => return refused(error, &options),
        Err(signal) => {
            command::withdraw(&client).await;
            return Ok(Exit::died_of(signal));
        }
    };
    let order = Order {
        lease: &options.lease,
        election: None,
        trace: connection.traceparent.as_ref(),
        session: client.default_session(),
        quiet: options.quiet,
    };
    match command::run(&order, &held.watch, &mut signals, held.release).await? {
        Ended::ByItself(exit) | Ended::OnRequest { exit, .. } => Ok(exit),
        Ended::Stopped { .. } => Ok(Exit::LOCK_LOST),
    }
}

/// Reports that the lock is busy, which is normal for a job on several machines. Any other refusal fails.
fn refused(error: anyhow::Error, options: &RunOptions) -> Outcome {
    use AcquireError::{Busy, TimedOut};
    let Some(Busy { .. } | TimedOut { .. }) = error.downcast_ref() else {
        return Err(error);
    };
    if !options.quiet {
        report(&error, false);
    }
    let wanted = options.busy_exit.map(|code| Exit::of_command(code.into()));
    Ok(wanted.unwrap_or(Exit::NOT_GRANTED))
}
