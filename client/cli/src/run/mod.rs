//! `run`: a command under a lock, or under several.

mod held;
mod options;

use leasehold_client::Client;

pub(crate) use options::{HELP, RunOptions};

use self::held::Held;
use crate::{
    command::{self, Ended, Order},
    exit::{Exit, Outcome},
};

/// Acquires, runs, releases.
pub(crate) async fn run(endpoint: &str, options: RunOptions) -> Outcome {
    let mut signals = command::signals()?;
    // Dropped where a signal comes first: a request that waits is cancelled, and all else ends with the connection.
    let (client, held) = tokio::select! {
        biased;
        signal = signals.next() => return Ok(Exit::Signal(signal)),
        acquired = acquire(endpoint, &options) => acquired?,
    };
    let order = Order {
        command: &options.command,
        election: None,
        ttl: command::ttl(&client),
        lock_delay: options.lock_delay,
    };
    match command::run(&order, &held.watch(), &mut signals).await? {
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

async fn acquire(endpoint: &str, options: &RunOptions) -> anyhow::Result<(Client, Held)> {
    let client = command::connect(endpoint, options.client_name.as_deref(), options.ttl).await?;
    let held = Held::acquire(&client, options).await?;
    Ok((client, held))
}
