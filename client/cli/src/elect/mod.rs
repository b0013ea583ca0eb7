//! `elect`: a command that runs while its process leads.

mod options;

use std::{pin::pin, time::Duration};

use leasehold_client::{AcquireError, Client, Election, Leadership};
use tokio::time::sleep;

pub(crate) use options::{ElectOptions, HELP};

use crate::{
    command::{self, Ended, Order, Watch},
    exit::{Exit, Outcome},
    outage::{LOOK, Outage},
};

/// How long to pause when a coordinator could not take a candidacy in.
const PAUSE: Duration = Duration::from_secs(1);

/// Campaigns, runs the command while leading, and begins anew when the leadership was lost.
pub(crate) async fn elect(endpoint: &str, options: ElectOptions) -> Outcome {
    let mut signals = command::signals()?;
    let client = tokio::select! {
        biased;
        signal = signals.next() => return Ok(Exit::Signal(signal)),
        client = command::connect(endpoint, options.client_name.as_deref(), options.ttl) => client?,
    };
    let order = Order {
        command: &options.command,
        election: Some(&options.name),
        ttl: command::ttl(&client),
        lock_delay: options.lock_delay,
    };
    let election = client
        .election(options.name.as_str())
        .lock_delay(options.lock_delay);
    loop {
        // Dropped where a signal comes first: the candidacy is withdrawn.
        let leadership = tokio::select! {
            biased;
            signal = signals.next() => return Ok(Exit::Signal(signal)),
            elected = campaign(&client, &election, &options.value) => elected?,
        };
        let watch = Watch::new([leadership.watch().as_lock().clone()]);
        let asked_to_end = match command::run(&order, &watch, &mut signals).await? {
            Ended::ByItself(exit) => {
                command::give_back(leadership.resign()).await;
                return Ok(exit);
            }
            Ended::Stopped { asked_to_end } => asked_to_end,
        };
        command::give_up(leadership.resign()).await;
        match asked_to_end {
            _ if options.once => return Ok(Exit::LockLost),
            Some(signal) => return Ok(Exit::Signal(signal)),
            None => eprintln!("leasehold: campaigning again for {:?}", options.name),
        }
    }
}

/// Waits to be elected for as long as it takes, and says when that is for want of a coordinator.
async fn campaign(
    client: &Client,
    election: &Election,
    value: &str,
) -> Result<Leadership, AcquireError> {
    let mut outage = Outage::default();
    loop {
        let mut campaign = pin!(election.campaign(value));
        let elected = loop {
            tokio::select! {
                biased;
                elected = &mut campaign => break elected,
                () = sleep(LOOK) => match client.default_session().info() {
                    Some(_) => outage.is_over(),
                    None => outage.goes_on("no connection to the coordinator"),
                },
            }
        };
        match elected {
            Err(error) if error.is_retryable() => {
                let why = error
                    .failure()
                    .map_or(error.to_string(), ToString::to_string);
                outage.goes_on(&why);
                sleep(PAUSE).await;
            }
            elected => return elected,
        }
    }
}
