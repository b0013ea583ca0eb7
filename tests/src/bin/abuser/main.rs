//! Abusive clients, in a process of their own so that they share nothing with the clients that measure beside them.
//!
//! `abuser ADDRESS KIND` connects to the coordinator at ADDRESS from 127.0.1.1 to 127.0.1.8, says `ready` when the abuse is
//! in full swing, goes on until its standard input ends, and says what it did: `did WHAT=NUMBER …`. Every kind is bounded in
//! connections and in rate.
#![expect(clippy::print_stdout, reason = "the answers are the program's output")]

mod blocked;
mod connections;
mod floods;
mod http2;
mod malformed;
mod resets;
mod slow;
mod tally;
mod unread;

use std::{io::Read, net::SocketAddr, thread, time::Duration};

use anyhow::{Context, bail};
use tally::Tally;
use tokio::sync::oneshot;

/// Niceness of the abusers. They get the processor time that is left over, since real abusers would have machines of their own.
const NICE: i32 = 19;
/// Longest run, in case the test forgets to end it.
const LONGEST: Duration = Duration::from_secs(120);

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [server, kind] = &arguments[..] else {
        bail!("usage: abuser ADDRESS KIND");
    };
    let server: SocketAddr = server.parse().context("ADDRESS is HOST:PORT")?;
    rustix::process::nice(NICE).context("a process may be nicer")?;
    let tally = Tally::default();
    let abuse = {
        let tally = tally.clone();
        async move {
            match kind.as_str() {
                "connections" => connections::leave_open(server, tally).await,
                "slow" => slow::trickle(server, tally).await,
                "unread-sessions" => unread::sessions(server, tally).await,
                "unread-watches" => unread::watches(server, tally).await,
                "blocked-waits" => blocked::waits(server, tally).await,
                "flood-one-name" => floods::one_name(server, tally).await,
                "flood-names" => floods::names(server, tally).await,
                "flood-limits" => floods::limits(server, tally).await,
                "flood-several" => floods::several(server, tally).await,
                "flood-requests" => floods::requests(server, tally).await,
                "flood-one-session" => floods::one_session(server, tally).await,
                "malformed" => malformed::garbage(server, tally).await,
                "huge" => malformed::huge(server, tally).await,
                "rapid-reset" => resets::rapid(server, tally).await,
                other => bail!("there is no abuse called {other}"),
            }
        }
    };
    tokio::select! {
        ended = abuse => ended?,
        () = told_to_stop() => {}
        () = tokio::time::sleep(LONGEST) => {}
    }
    println!("did {tally}");
    // What is open is closed by the kernel.
    std::process::exit(0)
}

/// Waits for the end of standard input.
async fn told_to_stop() {
    let (end, ended) = oneshot::channel();
    thread::spawn(move || {
        // An error is an end as well.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let _ = end.send(());
    });
    let _ = ended.await;
}

/// Says that the abuse is in full swing.
pub(crate) fn ready() {
    println!("ready");
}
