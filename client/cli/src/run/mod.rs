//! `run`: a command under a lock, or under several.

mod child;
mod guardian;
mod held;
mod options;
mod supervise;
mod terminal;
mod watchdog;

use std::time::Duration;

use anyhow::Context;
use leasehold_client::{Client, HoldError};
use tokio::{signal::unix::SignalKind, time::timeout};

pub(crate) use guardian::{GUARDIAN, guardian};
pub(crate) use options::{HELP, RunOptions};

use self::{child::SpawnError, held::Held};
use crate::{
    exit::{Exit, Outcome},
    signals::Signals,
};

/// How long a release may take before the tool ends all the same: the coordinator releases what an ended process held.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

/// Acquires, runs, releases.
pub(crate) async fn run(endpoint: &str, options: RunOptions) -> Outcome {
    let mut signals = Signals::listen(passed_on()).context("failed to listen for signals")?;
    // Dropped where a signal comes first: a request that waits is cancelled, and all else ends with the connection.
    let (client, held) = tokio::select! {
        biased;
        signal = signals.next() => return Ok(Exit::Signal(signal)),
        acquired = acquire(endpoint, &options) => acquired?,
    };
    let session = client.default_session();
    let ttl = session.info().map_or(Duration::ZERO, |info| info.ttl);
    let mut child = match child::spawn(&options.command, held.guards()) {
        Ok(child) => child,
        Err(error) => {
            release(held).await;
            let exit = match error {
                SpawnError::NotFound { .. } => Exit::NotFound,
                SpawnError::Other { .. } => Exit::NotExecutable,
            };
            crate::exit::report(&error.into());
            return Ok(exit);
        }
    };
    let watch = held.watch();
    let exit =
        supervise::supervise(&mut child, &watch, &mut signals, ttl, options.lock_delay).await?;
    drop(child);
    if exit == Exit::LockLost {
        // Where it is not lost yet, the next one need not wait for the deadline. How that ends is of no interest here.
        timeout(RELEASE_TIMEOUT, held.release()).await.ok();
    } else {
        release(held).await;
    }
    Ok(exit)
}

/// The signals that are passed on to the command.
fn passed_on() -> [SignalKind; 6] {
    [
        SignalKind::interrupt(),
        SignalKind::terminate(),
        SignalKind::hangup(),
        SignalKind::quit(),
        SignalKind::user_defined1(),
        SignalKind::user_defined2(),
    ]
}

async fn acquire(endpoint: &str, options: &RunOptions) -> anyhow::Result<(Client, Held)> {
    let client_name = options.client_name.clone().unwrap_or_else(|| {
        let host = rustix::system::uname();
        let host = host.nodename().to_string_lossy();
        format!("{host}/{}", std::process::id())
    });
    let mut builder = Client::builder().client_name(client_name);
    if let Some(ttl) = options.ttl {
        builder = builder.ttl(ttl);
    }
    let client = builder.connect(endpoint).await?;
    let held = Held::acquire(&client, options).await?;
    Ok((client, held))
}

async fn release(held: Held) {
    match timeout(RELEASE_TIMEOUT, held.release()).await {
        // Lost ones have been reported, or were lost when the command had ended.
        Ok(Ok(()) | Err(HoldError::Lost { .. })) => {}
        Ok(Err(error)) => crate::exit::report(&error.into()),
        Err(_) => eprintln!(
            "leasehold: the release was not confirmed in time; the lock ends with this process"
        ),
    }
}
