//! Grant whose time is over before the store's answer arrives.

use std::time::Duration;

use leasehold_tests::{RawSession, RedisServer, sentinels::MASTER_NAME, wait};

use crate::conformance::{
    site::{LATE, Site},
    topology::Topology,
};

/// The time of the grant.
const TTL: Duration = Duration::from_secs(2);
const NAME: &str = "late";

/// Grants are refused, and released, that the store carries out only after their time. The memory of a coordinator answers
/// within the call, so that no grant of it comes late; where replicas acknowledge, their time-out is over first.
pub(crate) async fn grants_are_refused(site: &Site) {
    if matches!(site.topology(), Topology::Memory | Topology::Replicated) {
        return;
    }
    let masters = site.masters();
    // No server takes too long for this coordinator.
    let coordinator = site.coordinator(["--store-timeout=30s"]);
    let mut session = RawSession::open(&coordinator.endpoint(), TTL).await;
    session.keep_alive(TTL / 10);
    let before = session.acquire(NAME).await.lock;
    assert!(session.release(&before).await);

    // Reads go on. Sentinels write as well, and would take a master for dead that keeps that waiting.
    for sentinel in site.sentinels() {
        let mut set = redis::cmd("SENTINEL");
        set.arg(&["SET", MASTER_NAME, "down-after-milliseconds", "60000"]);
        set.exec(&mut sentinel.connection()).unwrap();
    }
    for master in &masters {
        client(master, &["PAUSE", "60000", "WRITE"]);
    }
    let id = session.ask(NAME, None).await;
    // The session asked the store before it answered this.
    session.heartbeat().await;
    let asked = match site.topology() {
        Topology::Quorum => masters.len(),
        _ => 1,
    };
    wait::until("the acquire to wait at the store", LATE, || async {
        let number = masters.iter().filter(|master| keeps_waiting(master));
        let number = number.count();
        if number >= asked { Ok(()) } else { Err(number) }
    })
    .await;
    // What waits may be a command of others: the acquire may be as late again.
    tokio::time::sleep(2 * TTL).await;
    for master in &masters {
        client(master, &["UNPAUSE"]);
    }

    let refusal = session.refusal(id, LATE).await;
    let expected = match site.topology() {
        // The masters' votes are too old to be counted.
        Topology::Quorum => ("STORE_UNAVAILABLE", "took longer to agree than the TTL"),
        _ => ("STORE_INDETERMINATE", "came so late"),
    };
    assert_eq!(refusal.reason, expected.0, "{refusal:?}");
    assert!(refusal.message.contains(expected.1), "{refusal:?}");
    // It comes free, and the session goes on.
    let id = session.ask(NAME, None).await;
    let granted = session.granted(id, LATE).await.lock;
    assert!(granted.fencing_token > before.fencing_token);
    assert!(session.release(&granted).await);
    assert!(session.unread_unasked().is_empty());
    session.close().await;
}

fn client(server: &RedisServer, arguments: &[&str]) {
    let mut client = redis::cmd("CLIENT");
    client.arg(arguments);
    client.exec(&mut server.connection()).unwrap();
}

/// Returns whether a server that is paused keeps a command waiting.
fn keeps_waiting(server: &RedisServer) -> bool {
    let mut info = redis::cmd("INFO");
    let told: String = info.arg("clients").query(&mut server.connection()).unwrap();
    let mut lines = told.lines();
    let blocked = lines.find_map(|line| line.strip_prefix("blocked_clients:"));
    blocked.is_some_and(|number| number.trim() != "0")
}
