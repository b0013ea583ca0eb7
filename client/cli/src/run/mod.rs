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
    let client = tokio::select! {
        biased;
        signal = signals.next() => return Ok(Exit::Signal(signal)),
        client = waiting::connect(connection, &options, &mut wait) => client?,
    };
    // If a signal comes first, this is dropped, which cancels the request.
    let acquired = tokio::select! {
        biased;
        signal = signals.next() => Err(signal),
        acquired = waiting::acquire(&client, &options, &mut wait) => Ok(acquired),
    };
    let held = match acquired {
        Ok(acquired) => acquired?,
        Err(signal) => {
            command::withdraw(&client).await;
            return Ok(Exit::Signal(signal));
        }
    };
    let watch = held.watch();
    let order = Order {
        command: &options.command,
        election: None,
        ttl: command::ttl(&client, &watch),
        lock_delay: options.lock_delay,
        grace: options.grace,
        trace: connection.traceparent.as_ref(),
        session: client.default_session(),
        quiet: options.quiet,
    };
    match command::run(&order, &watch, &mut signals).await? {
        Ended::ByItself(exit) => {
            command::give_back(held.release()).await;
            Ok(exit)
        }
        Ended::Stopped { .. } => {
            command::give_up(held.release()).await;
            Ok(Exit::LockLost)
        }
    }
}
