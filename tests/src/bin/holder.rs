//! A client process for tests that holds one lock over TLS until it is killed: `holder ENDPOINT CA NAME TTL_MS` says `holding` when it
//! has the lock.
#![expect(clippy::print_stdout, reason = "the answer is the program's output")]

use std::{path::Path, time::Duration};

use anyhow::{Context, bail};
use leasehold_tests::{RawSession, certificates};

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [endpoint, ca, name, ttl] = &arguments[..] else {
        bail!("usage: holder ENDPOINT CA NAME TTL_MS");
    };
    let ttl = Duration::from_millis(ttl.parse().context("TTL_MS is a number")?);
    let channel = certificates::connect(endpoint, Path::new(ca), None).await?;
    let mut session = RawSession::open_on(channel, ttl).await;
    session.keep_alive(ttl / 6);
    session.acquire(name).await;
    println!("holding");
    std::future::pending().await
}
