//! HTTP/2 rapid reset: calls that are begun and reset in the same breath.

use std::{net::SocketAddr, time::Duration};

use leasehold_proto::v1::AcquireRequest;
use prost::Message;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    task::JoinSet,
    time::{MissedTickBehavior, interval},
};

use crate::{
    http2::{self, DATA, END_HEADERS, END_STREAM, HEADERS, RST_STREAM, frame},
    ready,
    tally::Tally,
};

/// Connections, and calls of each in 10 ms.
const CONNECTIONS: usize = 20;
const CALLS: u32 = 20;

pub(crate) async fn rapid(server: SocketAddr, tally: Tally) -> anyhow::Result<()> {
    let mut clients = JoinSet::new();
    for number in 0..CONNECTIONS {
        let tally = tally.clone();
        clients.spawn(async move {
            loop {
                reset_on(server, number % 2 == 0, &tally).await;
                tally.one("closed_by_coordinator");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
    }
    ready();
    clients.join_all().await;
    Ok(())
}

/// Resets calls on a connection. Half of the connections send the whole call first, so that it is on its way to the store.
async fn reset_on(server: SocketAddr, whole: bool, tally: &Tally) {
    let Ok(stream) = http2::connect(server, None).await else {
        return;
    };
    tally.one("connections");
    let (mut read, mut write) = stream.into_split();
    let reading = async {
        let mut sink = vec![0; 16 * 1024];
        while matches!(read.read(&mut sink).await, Ok(length) if length > 0) {}
    };
    let block = http2::headers("/leasehold.v1.LockService/Acquire", &[]);
    let writing = async {
        if write.write_all(&http2::beginning(&[])).await.is_err() {
            return;
        }
        let mut pace = interval(Duration::from_millis(10));
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Odd numbers until there are none left.
        for first in (1..0x7fff_0000_u32).step_by(2 * CALLS as usize) {
            pace.tick().await;
            let mut bytes = Vec::new();
            for id in (first..).step_by(2).take(CALLS as usize) {
                bytes.extend(frame(HEADERS, END_HEADERS, id, &block));
                if whole {
                    let acquire = AcquireRequest {
                        name: format!("abuse/reset/{}", id % 1000),
                        ..AcquireRequest::default()
                    };
                    let message = http2::honest(&acquire.encode_to_vec());
                    bytes.extend(frame(DATA, END_STREAM, id, &message));
                }
                bytes.extend(frame(RST_STREAM, 0, id, &8_u32.to_be_bytes()));
            }
            if write.write_all(&bytes).await.is_err() {
                return;
            }
            tally.add("calls_reset", u64::from(CALLS));
        }
    };
    tokio::select! {
        () = reading => {}
        () = writing => {}
    }
}
