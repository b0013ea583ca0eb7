//! Files that change while the coordinator runs.

use std::{fs, time::Duration};

use leasehold_tests::{Authority, Coordinator, RawSession, certificates, in_words, wait};

use crate::tls::site::{PATIENCE, Site, ask};

/// Sessions that live through the swaps.
const SESSIONS: usize = 20;
const TTL: Duration = Duration::from_secs(6);
const SWAPS: usize = 2;

/// Waits until a coordinator shows a certificate of this authority.
async fn until_served_by(authority: &Authority, endpoint: &str) {
    wait::until("the new certificate to be served", PATIENCE, || {
        ask(authority, endpoint, None)
    })
    .await;
}

#[tokio::test]
async fn a_certificate_is_swapped_under_load_without_a_dropped_stream() {
    let site = Site::open().await;
    let endpoint = site.coordinator.endpoint();
    let mut sessions = Vec::new();
    for number in 0..SESSIONS {
        let channel = site.servers.connect(&endpoint, None).await.unwrap();
        let mut session = RawSession::open_on(channel, TTL).await;
        session.keep_alive(TTL / 6);
        let held = session.acquire(&format!("held/{number}")).await;
        sessions.push((session, held));
    }
    let renewals = async || {
        let metrics = site.coordinator.metrics().await;
        metrics.sum("leasehold_renewals_total")
    };
    let mut before = None;
    for swap in 0..SWAPS {
        let successors = Authority::new(&format!("successors {swap}"));
        site.server.replace_with(&successors.server().issue());
        until_served_by(&successors, &endpoint).await;
        // From then on no connection sees the one before.
        let trusted = before.as_ref().unwrap_or(&site.servers);
        let old = in_words(&ask(trusted, &endpoint, None).await.unwrap_err());
        assert!(old.contains("UnknownIssuer"), "{old}");
        before = Some(successors);
        let renewed = renewals().await;
        wait::until("all to be renewed", PATIENCE, || async {
            let now = renewals().await;
            (now >= renewed + SESSIONS as f64).then_some(()).ok_or(now)
        })
        .await;
    }
    let metrics = site.coordinator.metrics().await;
    assert_eq!(metrics.sum("leasehold_sessions"), SESSIONS as f64);
    assert_eq!(metrics.sum("leasehold_holds"), SESSIONS as f64);
    assert_eq!(metrics.find("leasehold_lost_total").unwrap_or(0.0), 0.0);
    for (session, held) in &mut sessions {
        assert!(session.release(&held.lock).await, "still held");
    }
}

#[tokio::test]
async fn half_a_swap_leaves_what_was_there_in_force() {
    let authority = Authority::new("servers");
    let server = authority.server().issue();
    let coordinator = Coordinator::process().arguments(server.flags()).start();
    let endpoint = coordinator.endpoint();
    let successors = Authority::new("successors");
    let next = successors.server().issue();
    certificates::replace(&server.cert, &fs::read_to_string(&next.cert).unwrap());
    coordinator
        .logged(&["not the key of the first certificate"])
        .await;
    ask(&authority, &endpoint, None).await.unwrap();
    certificates::replace(&server.key, &fs::read_to_string(&next.key).unwrap());
    until_served_by(&successors, &endpoint).await;
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn files_that_can_not_be_read_for_a_moment_are_read_again() {
    use leasehold_tests::process::limit_open_files;

    let authority = Authority::new("servers");
    let server = authority.server().issue();
    let coordinator = Coordinator::process().arguments(server.flags()).start();
    let successors = Authority::new("successors");
    // The files say nothing of why they can't be read, nor of when they can.
    let before = limit_open_files(coordinator.id(), 0);
    server.replace_with(&successors.server().issue());
    coordinator
        .logged(&["failed to take changed certificates over"])
        .await;
    limit_open_files(coordinator.id(), before);
    until_served_by(&successors, &coordinator.endpoint()).await;
}

#[tokio::test]
async fn a_configuration_that_names_other_files_is_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("leasehold.toml");
    let write = |authority: &Authority| {
        let server = authority.server().issue();
        let text = format!("tls-cert = {:?}\ntls-key = {:?}\n", server.cert, server.key);
        fs::write(&file, text).unwrap();
    };
    let (one, other) = (Authority::new("one"), Authority::new("other"));
    write(&one);
    let mut coordinator = Coordinator::process()
        .arguments(["--config", file.to_str().unwrap()])
        .start();
    let endpoint = coordinator.endpoint().replace("http://", "https://");
    ask(&one, &endpoint, None).await.unwrap();
    write(&other);
    coordinator.child().signal(rustix::process::Signal::HUP);
    until_served_by(&other, &endpoint).await;
    // Without any it can't go on serving as it does: that is told, and nothing changes.
    fs::write(&file, "").unwrap();
    coordinator.child().signal(rustix::process::Signal::HUP);
    coordinator.logged(&["tls-cert is not set any more"]).await;
    ask(&other, &endpoint, None).await.unwrap();
}

#[tokio::test]
async fn clients_are_judged_by_the_authority_in_force() {
    let site = Site::mutual().await;
    let successors = Authority::new("successors");
    let (old, new) = (
        site.clients.client("old").issue(),
        successors.client("new").issue(),
    );
    site.ask(Some(&old)).await.unwrap();
    site.ask(Some(&new)).await.unwrap_err();
    certificates::replace(
        &site.clients.ca(),
        &fs::read_to_string(successors.ca()).unwrap(),
    );
    wait::until("the new authority to count", PATIENCE, || {
        site.ask(Some(&new))
    })
    .await;
    let refused = in_words(&site.ask(Some(&old)).await.unwrap_err());
    assert!(refused.contains("UnknownCA"), "{refused}");
}
