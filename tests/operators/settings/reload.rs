//! SIGHUP: a configuration that is read anew, and counts as a whole or not at all.

use std::{fs, path::PathBuf};

use leasehold_tests::{
    Coordinator, CoordinatorProcess, RawSession, process::limit_open_files, wait,
};
use rustix::process::Signal;
use tempfile::TempDir;
use tokio::net::TcpStream;

use super::LIMIT;

/// A coordinator with a file that can be changed.
struct Site {
    coordinator: CoordinatorProcess,
    file: PathBuf,
    _directory: TempDir,
}

impl Site {
    fn start(text: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("leasehold.toml");
        fs::write(&file, text).unwrap();
        let coordinator = Coordinator::process()
            .arguments(["--config", file.to_str().unwrap()])
            .start();
        Self {
            coordinator,
            file,
            _directory: directory,
        }
    }

    fn reload(&mut self, text: &str) {
        fs::write(&self.file, text).unwrap();
        self.coordinator.child().signal(Signal::HUP);
    }
}

#[tokio::test]
async fn the_log_follows_and_sessions_go_on() {
    let mut site = Site::start("");
    let mut session = RawSession::open(&site.coordinator.endpoint(), LIMIT).await;
    let hold = session.acquire("kept").await;
    assert!(!site.coordinator.log().contains("DEBUG"));

    site.reload("log = \"debug\"\n");
    let told = site
        .coordinator
        .logged(&["the configuration was reloaded"])
        .await;
    assert!(told.contains("changed=\"log\""), "{told}");
    // Each connection that ends is told at this level.
    wait::until("a line of the level debug", LIMIT, || async {
        drop(site.coordinator.channel().await);
        let log = site.coordinator.log();
        if log.contains("DEBUG") {
            Ok(())
        } else {
            Err(log)
        }
    })
    .await;

    site.reload("log = \"error\"\n");
    wait::until("silence", LIMIT, || async {
        let before = site.coordinator.log().len();
        drop(site.coordinator.metrics().await);
        drop(RawSession::open(&site.coordinator.endpoint(), LIMIT).await);
        let log = site.coordinator.log();
        if log.len() == before { Ok(()) } else { Err(()) }
    })
    .await;
    assert!(session.release(&hold.lock).await);
}

#[tokio::test]
async fn an_invalid_configuration_changes_nothing() {
    let mut site = Site::start("");
    site.reload("log = \"trace\"\nmax-sesions = 1\nstore = \"etcd://:hunter2@h\"\n");
    let first = site.coordinator.logged(&["ERROR", "did you mean"]).await;
    assert!(first.contains("line 2, column 1"), "{first}");
    let second = site
        .coordinator
        .logged(&["ERROR", "line 3, column 9"])
        .await;
    assert!(second.contains("stays in force"), "{second}");
    // A file that is right, and names one that is not there.
    site.reload("log = \"trace\"\nstore = \"rediss://h\"\nstore-ca = \"/no/such/ca.pem\"\n");
    site.coordinator.logged(&["ERROR", "/no/such/ca.pem"]).await;

    let mut session = RawSession::open(&site.coordinator.endpoint(), LIMIT).await;
    session.acquire("served").await;
    let log = site.coordinator.log();
    assert!(!log.contains("TRACE") && !log.contains("DEBUG"), "{log}");
    assert!(!log.contains("the configuration was reloaded"), "{log}");
    assert!(!log.contains("hunter2"), "{log}");

    // And the next one that is right counts.
    site.reload("log = \"debug\"\n");
    site.coordinator
        .logged(&["the configuration was reloaded"])
        .await;
}

#[tokio::test]
async fn a_drain_takes_as_long_as_the_file_says_by_then() {
    let mut site = Site::start("drain-timeout = \"1h\"\n");
    let mut session = RawSession::open(&site.coordinator.endpoint(), LIMIT).await;
    session.acquire("kept").await;
    site.reload("drain-timeout = \"50ms\"\n");
    let told = site
        .coordinator
        .logged(&["the configuration was reloaded"])
        .await;
    assert!(told.contains("changed=\"drain-timeout\""), "{told}");
    site.coordinator.child().signal(Signal::TERM);
    session.end(LIMIT).await.unwrap_err();
}

#[tokio::test]
async fn connections_leave_files_for_probes_and_metrics() {
    let mut site = Site::start("");
    limit_open_files(site.coordinator.child().id(), 120);
    site.reload("max-connections = 1000\n");
    site.coordinator
        .logged(&["the configuration was reloaded"])
        .await;
    let address = site.coordinator.endpoint().replace("http://", "");
    let mut connections = Vec::new();
    for _ in 0..200 {
        // Beyond the limit, one may be closed before this returns.
        connections.extend(TcpStream::connect(&address).await);
    }
    wait::until("connections to be refused", LIMIT, || async {
        let metrics = site.coordinator.metrics().await;
        let limit = metrics.of("leasehold_limit", &["limit=\"max-connections\""]);
        assert_eq!(limit, 60.0);
        let refused = metrics.sum("leasehold_connections_refused_total");
        if refused >= 140.0 {
            Ok(())
        } else {
            Err(refused)
        }
    })
    .await;
}

#[tokio::test]
async fn changes_that_need_a_restart_are_reported() {
    let mut site = Site::start("");
    site.reload("max-wait = \"1h\"\nname = \"another\"\n");
    let told = site.coordinator.logged(&["WARN", "restarted"]).await;
    assert!(told.contains("name, max-wait"), "{told}");
    // Not taken back as long as it differs, and then it is.
    site.reload("max-wait = \"1h\"\n");
    site.coordinator
        .logged(&["WARN", "settings=\"max-wait\""])
        .await;
}
