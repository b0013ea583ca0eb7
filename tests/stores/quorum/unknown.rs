//! Masters that a coordinator meets for the first time.

use std::{net::SocketAddr, time::Duration};

use leasehold_core::command::Op;
use leasehold_store::{Options, Status, Store, StoreError, open};
use leasehold_tests::{Masters, wait};
use redis::Commands;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy},
    net::{TcpListener, TcpStream},
};

use crate::quorum::site::{MAX_TTL, PROMPT, acquire, options, store, take, try_run, up};

/// Forwards connections to a master, and makes it tell that it has been up for years: its machine began in 1970 and learnt the
/// time later.
async fn boasting(master: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (client, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let (mut from_client, mut to_client) = client.into_split();
                let server = TcpStream::connect(master).await.unwrap();
                let (mut from_server, mut to_server) = server.into_split();
                tokio::spawn(async move { copy(&mut from_client, &mut to_server).await });
                let mut buffer = vec![0; 64 * 1024];
                while let Ok(count @ 1..) = from_server.read(&mut buffer).await {
                    boast(&mut buffer[..count]);
                    if to_client.write_all(&buffer[..count]).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// Makes years of an uptime, in as many bytes as that and the line below it had.
fn boast(reply: &mut [u8]) {
    const UPTIME: &[u8] = b"uptime_in_seconds:";
    let find = |text: &[u8], from: usize| {
        let at = reply[from..].windows(text.len()).position(|at| at == text);
        at.map(|at| from + at)
    };
    let Some(begin) = find(UPTIME, 0) else {
        return;
    };
    let days = find(b"uptime_in_days:", begin).unwrap();
    let end = find(b"\r\n", days).unwrap();
    reply[begin + UPTIME.len()..end].fill(b'0');
    reply[begin + UPTIME.len()..][..10].copy_from_slice(b"1700000000");
    // The number ends here; what follows is a line that nobody reads.
    reply[begin + UPTIME.len() + 10..][..2].copy_from_slice(b"\r\n");
}

#[tokio::test]
async fn the_age_that_an_empty_master_claims_is_not_believed() {
    let masters = Masters::start(3);
    let mut hosts = Vec::new();
    for server in masters.servers() {
        hosts.push(boasting(server.address()).await.to_string());
    }
    let (store, _) = open(Options {
        url: format!("redis+quorum://{}", hosts.join(",")),
        ..options(&masters, "here")
    })
    .unwrap();
    // They have answered: before that, none has a vote whatever it says.
    all_too_young(&store).await;
    let refused = try_run(&store, Op::Acquire(acquire(1))).await;
    assert!(
        matches!(refused, Err(StoreError::Unavailable { .. })),
        "{refused:?}"
    );
    // The coordinator has seen them for long enough by its own clock.
    up(&store).await;
    take(&store, acquire(2)).await;
}

/// Waits until a store has met three masters, and counts none because of its age.
async fn all_too_young(store: &Store) {
    wait::until("three masters to have no vote", PROMPT, || async {
        match &*store.status().borrow() {
            Status::Down { reason, .. } if reason.matches("not been seen running").count() == 3 => {
                Ok(())
            }
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

/// Returns what a master has noted of the run that answers: for how long that has been seen (ms).
fn seen(masters: &Masters, place: usize) -> Option<u64> {
    let mut connection = masters.server(place).connection();
    let run: String = connection.hget("lh:run:lock:", "run").ok()?;
    assert_eq!(run, masters.run_id(place));
    connection.hget("lh:run:lock:", "seen").ok()
}

/// Waits until all masters have noted that they were seen for so long.
async fn all_seen(masters: &Masters, enough: Duration) {
    wait::until("all masters to be marked", PROMPT, || async {
        let seen: Vec<_> = (0..3).map(|place| seen(masters, place)).collect();
        let is_enough = |seen: &Option<u64>| seen.is_some_and(|seen| seen >= millis(enough));
        if seen.iter().all(is_enough) {
            Ok(())
        } else {
            Err(seen)
        }
    })
    .await;
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap()
}

/// Waits until a store is up, and fails if it says before that that masters have no vote yet because of their age.
async fn up_at_once(store: &Store) {
    let mut status = store.status();
    let reached = status.wait_for(|status| match status {
        Status::Up { .. } => true,
        Status::Down { reason, .. } => {
            assert!(!reason.contains("not been seen running"), "{reason}");
            false
        }
    });
    let reached = tokio::time::timeout(PROMPT, reached).await;
    assert!(reached.is_ok(), "{:?}", *store.status().borrow());
}

#[tokio::test]
async fn a_coordinator_that_restarts_counts_masters_that_others_have_seen_for_long_enough() {
    let masters = Masters::start(3);
    let first = store(&masters, "here").await;
    take(&first, acquire(1)).await;
    all_seen(&masters, MAX_TTL * 4).await;
    drop(first);
    let (second, _) = open(options(&masters, "here")).unwrap();
    up_at_once(&second).await;
}

#[tokio::test]
async fn a_mark_counts_for_the_run_that_it_was_written_of_only() {
    let mut masters = Masters::start(3);
    let first = store(&masters, "here").await;
    take(&first, acquire(1)).await;
    drop(first);
    for place in 0..2 {
        // They come back with what they knew, the mark included.
        let snapshot = masters.save(place);
        masters.restart_from(place, &snapshot);
    }
    let (second, _) = open(options(&masters, "here")).unwrap();
    wait::until("two masters to have no vote", PROMPT, || async {
        match &*second.status().borrow() {
            Status::Down { reason, .. }
                if reason.contains("1 of 3 masters have a vote")
                    && reason.matches("not been seen running").count() == 2 =>
            {
                Ok(())
            }
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    up(&second).await;
}

#[tokio::test]
async fn a_mark_goes_on_growing_from_one_coordinator_to_the_next() {
    const HOLD: Duration = Duration::from_secs(3600);
    let masters = Masters::start(3);
    // Nothing could have seen them for long enough within this test.
    let patient = |coordinator| Options {
        max_hold: HOLD,
        ..options(&masters, coordinator)
    };
    let (first, _) = open(patient("one")).unwrap();
    all_seen(&masters, Duration::ZERO).await;
    drop(first);
    for place in 0..3 {
        let mut connection = masters.server(place).connection();
        let _: () = connection
            .hset("lh:run:lock:", "seen", millis(HOLD * 2))
            .unwrap();
    }
    let (second, _) = open(patient("two")).unwrap();
    up_at_once(&second).await;
    take(&second, acquire(1)).await;
}
