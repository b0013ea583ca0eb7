//! `run`: a command under a lock, or under several.

mod held;
mod options;
mod progress;
mod waiting;

pub(crate) use options::{HELP, RunOptions};

use self::waiting::Wait;
use crate::{
    command::{self, Ended, Order},
    connection::Connection,
    exit::{Exit, Outcome},
};

/// Acquires the locks, runs the command, and releases the locks.
pub(crate) async fn run(connection: &Connection, options: RunOptions) -> Outcome {
    let mut signals = command::signals()?;
    let mut wait = Wait::begin(options.wait);
    let connecting = waiting::connect(connection, &options, &mut wait);
    let client = match signals.or(connecting).await {
        Ok(connected) => connected?,
        Err(signal) => return Ok(Exit::signal(signal)),
    };
    let acquiring = waiting::acquire(&client, &options, &mut wait);
    let held = match signals.or(acquiring).await {
        Ok(acquired) => acquired?,
        Err(signal) => {
            command::withdraw(&client).await;
            return Ok(Exit::signal(signal));
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
