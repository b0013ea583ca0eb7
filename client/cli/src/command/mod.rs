//! Supervised commands: what `run` and `elect` have in common.

mod child;
mod guardian;
mod options;
mod order;
mod others;
mod relay;
mod supervise;
mod terminal;
mod watch;
mod watchdog;

use std::time::Duration;

use anyhow::Context;
use leasehold_client::{Client, ConnectError, HoldError};
use tokio::{signal::unix::SignalKind, time::timeout};

pub(crate) use guardian::{GUARDIAN, guardian};
pub(crate) use options::LeaseOptions;
pub(crate) use order::{Ended, Order};
pub(crate) use watch::Watch;

use crate::{connection::Connection, report::report, say::say, signals::Signals};

/// Longest time that the tool waits for a release: the coordinator releases the locks of an ended process anyway.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

/// Returns the signals that are passed on to the command, and those with which a terminal stops a group: a tool that is stopped
/// could not stop its command in time.
pub(crate) fn signals() -> anyhow::Result<Signals> {
    let heeded = [
        SignalKind::interrupt(),
        SignalKind::terminate(),
        SignalKind::hangup(),
        SignalKind::quit(),
        SignalKind::user_defined1(),
        SignalKind::user_defined2(),
        SignalKind::from_raw(libc::SIGTSTP),
        SignalKind::from_raw(libc::SIGTTIN),
    ];
    Signals::listen(heeded).context("failed to listen for signals")
}

/// Connects with these options.
pub(crate) async fn connect(
    connection: &Connection,
    options: &LeaseOptions,
) -> Result<Client, ConnectError> {
    let mut builder = connection.builder().disconnect_grace(options.grace);
    if let Some(name) = &options.client_name {
        builder = builder.client_name(name);
    }
    if let Some(ttl) = options.ttl {
        builder = builder.ttl(ttl);
    }
    builder.connect(connection.endpoint.as_str()).await
}

/// Ends the session of a request that a signal has ended. The request may have been granted at that moment, and only a
/// clean release lets the next holder in at once, without the lock-delay.
pub(crate) async fn withdraw(client: &Client) {
    timeout(RELEASE_TIMEOUT, client.close()).await.ok();
}

/// Runs the command until it has ended, or has been stopped because one of the locks is lost. Then releases the locks.
pub(crate) async fn run(
    order: &Order<'_>,
    watch: &Watch,
    signals: &mut Signals,
    release: impl Future<Output = Result<(), HoldError>>,
) -> anyhow::Result<Ended> {
    let ended = start(order, watch, signals).await?;
    let released = timeout(RELEASE_TIMEOUT, release).await;
    match (&ended, released) {
        // If a lock is not lost yet, the next holder need not wait for the deadline. The loss has been reported.
        (Ended::Stopped { .. }, _) => {}
        // A loss has been reported, or came after the command had ended.
        (_, Ok(Ok(()) | Err(HoldError::Lost { .. }))) => {}
        (_, Ok(Err(error))) => report(&error.into(), false),
        (_, Err(_)) => {
            say("the release was not confirmed in time; the lock ends with this process");
        }
    }
    Ok(ended)
}

async fn start(order: &Order<'_>, watch: &Watch, signals: &mut Signals) -> anyhow::Result<Ended> {
    if watch.left().whole().is_zero() {
        say(format_args!(
            "lock {} was lost before the command was started",
            watch.names()
        ));
        return Ok(Ended::Stopped { asked_to_end: None });
    }
    let mut child = match child::spawn(order, watch) {
        Ok(child) => child,
        Err((exit, error)) => {
            report(&error, false);
            return Ok(Ended::ByItself(exit));
        }
    };
    supervise::supervise(&mut child, watch, signals, order)
        .await
        .context("failed to wait for the command")
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests fail by panicking")]
mod tests {
    use leasehold_tests::Coordinator;

    use super::*;

    #[tokio::test]
    async fn nothing_is_started_under_what_is_lost_already() {
        let coordinator = Coordinator::in_process();
        let client = Client::connect(coordinator.endpoint()).await.unwrap();
        let guard = client.lock("a").await.unwrap();
        let watch = Watch::new([guard.watch()]);
        client.admin().force_release("a").await.unwrap();
        guard.lost().await;
        // What could not be started would be told apart from what was not.
        let lease = LeaseOptions {
            ttl: None,
            lock_delay: Duration::ZERO,
            grace: Duration::ZERO,
            client_name: None,
            on_request: None,
            command: vec!["/nonexistent/command".into()],
        };
        let order = Order {
            lease: &lease,
            election: None,
            trace: None,
            session: client.default_session(),
            quiet: false,
        };
        let mut no_signals = Signals::listen([]).unwrap();
        let ended = start(&order, &watch, &mut no_signals).await.unwrap();
        assert!(matches!(ended, Ended::Stopped { asked_to_end: None }));
    }
}
