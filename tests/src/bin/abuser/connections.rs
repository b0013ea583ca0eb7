//! Connections that are opened and left idle.

use std::{net::SocketAddr, time::Duration};

use tokio::{
    task::JoinSet,
    time::{MissedTickBehavior, interval},
};

use crate::{http2, ready, tally::Tally};

/// Number of connections that are open at a time.
const CONNECTIONS: usize = 10_000;
/// Number of connections to open each millisecond, at most.
const EACH_MILLISECOND: usize = 3;

/// Keeps ten thousand connections open. Half of them say nothing at all; the others finish the handshake, and answer no ping
/// ever after. Each that the coordinator closes is opened anew.
pub(crate) async fn leave_open(server: SocketAddr, tally: Tally) -> anyhow::Result<()> {
    let mut left = JoinSet::new();
    let mut pace = interval(Duration::from_millis(1));
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut said = false;
    let mut number = 0;
    loop {
        pace.tick().await;
        while left.try_join_next().is_some() {
            tally.one("closed_by_coordinator");
        }
        for _ in 0..EACH_MILLISECOND {
            if left.len() >= CONNECTIONS {
                break;
            }
            number += 1;
            let tally = tally.clone();
            left.spawn(async move { leave(server, number % 2 == 0, &tally).await });
        }
        // The first to be closed may be closed before the last is open.
        if !said && tally.get("opened") >= CONNECTIONS as u64 {
            said = true;
            ready();
        }
    }
}

async fn leave(server: SocketAddr, shakes_hands: bool, tally: &Tally) {
    let Ok(mut stream) = http2::connect(server, None).await else {
        tally.one("not_opened");
        return;
    };
    if shakes_hands {
        http2::write(&mut stream, &http2::beginning(&[])).await;
    }
    tally.one("opened");
    http2::closed_within(&mut stream, Duration::from_secs(3600)).await;
}
