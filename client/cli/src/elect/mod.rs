//! `elect`: a command that runs while its process leads.

mod options;
mod ready;

use std::{
    pin::pin,
    time::{Duration, Instant},
};

use leasehold_client::{AcquireError, Client, Election, Leadership};
use tokio::time::sleep;

pub(crate) use options::{ElectOptions, HELP};

use self::ready::Ready;
use crate::{
    command::{self, Ended, Order, Watch},
    connection::Connection,
    exit::{Exit, Outcome},
    outage::{LOOK, Outage},
    say::say,
};

/// Pause after a coordinator refused a candidacy.
const PAUSE: Duration = Duration::from_secs(1);

/// Time for which the attempt after a refusal must go unanswered to count as a candidacy that waits. A coordinator may wait
/// nearly as long for its store before it refuses.
const TAKEN_IN: Duration = Duration::from_secs(5);

/// Time for an immediate election before the candidate says that it waits.
const SOON: Duration = Duration::from_millis(500);

/// Campaigns, runs the command while leading, and campaigns again when the leadership is lost.
pub(crate) async fn elect(connection: &Connection, options: ElectOptions) -> Outcome {
    let mut signals = command::signals()?;
    let ready = Ready::default();
    if let Some(address) = options.ready_listen {
        ready.listen(address).await?;
    }
    let connecting = command::connect(connection, &options.lease);
    let client = match signals.or(connecting).await {
        Ok(connected) => connected?,
        Err(signal) => return Ok(Exit::died_of(signal)),
    };
    let election = client
        .election(options.name.as_str())
        .lock_delay(options.lease.lock_delay);
    loop {
        let campaigning = campaign(&client, &election, &options);
        let leadership = match signals.or(campaigning).await {
            Ok(elected) => elected?,
            Err(signal) => {
                command::withdraw(&client).await;
                return Ok(Exit::died_of(signal));
            }
        };
        ready.leads(leadership.watch());
        let watch = Watch::new([leadership.watch().as_lock().clone()]);
        let order = Order {
            lease: &options.lease,
            election: Some(&options.name),
            trace: connection.traceparent.as_ref(),
            session: client.default_session(),
            quiet: false,
        };
        let resign = async {
            ready.leads_no_more();
            leadership.resign().await
        };
        // The exit code with `--once`, and that if a signal has asked this tool to end.
        let ended = match command::run(&order, &watch, &mut signals, resign).await? {
            Ended::ByItself(exit) => return Ok(exit),
            Ended::OnRequest { exit, asked_to_end } => (exit, asked_to_end.map(|_| exit)),
            Ended::Stopped { asked_to_end } => (Exit::LOCK_LOST, asked_to_end.map(Exit::died_of)),
        };
        match ended {
            (exit, _) if options.once => return Ok(exit),
            (_, Some(exit)) => return Ok(exit),
            (_, None) => say(format_args!("campaigning again for {:?}", options.name)),
        }
    }
}

/// Waits to be elected, without a limit. Says once that it waits, and reports when no coordinator is reachable.
async fn campaign(
    client: &Client,
    election: &Election,
    options: &ElectOptions,
) -> Result<Leadership, AcquireError> {
    let mut outage = Outage::default();
    let mut refused = false;
    let mut says_waiting = true;
    loop {
        let election = election.clone().without_retries();
        let mut campaign = pin!(election.campaign(options.value.as_str()));
        // When a coordinator first received it.
        let mut asked = None;
        let elected = loop {
            tokio::select! {
                biased;
                elected = &mut campaign => break elected,
                () = sleep(LOOK) => match client.default_session().info() {
                    Some(_) => {
                        let asked = *asked.get_or_insert_with(Instant::now);
                        if !refused || asked.elapsed() >= TAKEN_IN {
                            refused = false;
                            outage.is_over();
                            if asked.elapsed() >= SOON && std::mem::take(&mut says_waiting) {
                                say(format_args!("waiting to lead {:?}", options.name));
                            }
                        }
                    }
                    None => {
                        asked = None;
                        outage.goes_on("no connection to the coordinator");
                    }
                },
            }
        };
        match elected {
            Err(error) if error.is_retryable() => {
                let why = error
                    .failure()
                    .map_or(error.to_string(), ToString::to_string);
                outage.goes_on(&why);
                refused = true;
                sleep(PAUSE).await;
            }
            Ok(leadership) => {
                outage.is_over();
                return Ok(leadership);
            }
            Err(error) => return Err(error),
        }
    }
}
