//! Files that change while the coordinator runs.

use std::{fs, time::Duration};

use leasehold_server::tls::ClientTrust;
use leasehold_tests::{Authority, Coordinator, RawSession, certificates, wait};
use tokio::io::AsyncWriteExt;

use crate::tls::{
    listening::{BOTH, HTTP2, Listening, client, soon},
    site::{PATIENCE, Site, ask, chain},
};

/// Sessions that live through the swaps.
const SESSIONS: usize = 100;
/// Each is renewed several times between two swaps.
const TTL: Duration = Duration::from_millis(1500);
const SWAPS: usize = 5;

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
    let renewed = site
        .coordinator
        .metrics()
        .await
        .sum("leasehold_renewals_total");
    let mut before = None;
    for swap in 0..SWAPS {
        let successors = Authority::new(&format!("successors {swap}"));
        site.server.replace_with(&successors.server().issue());
        wait::until("the new certificate to be served", PATIENCE, || async {
            ask(&successors, &endpoint, None).await
        })
        .await;
        // From then on no connection sees the one before.
        let trusted = before.as_ref().unwrap_or(&site.servers);
        let old = chain(&ask(trusted, &endpoint, None).await.unwrap_err());
        assert!(old.contains("UnknownIssuer"), "{old}");
        before = Some(successors);
    }
    let metrics = site.coordinator.metrics().await;
    assert_eq!(metrics.sum("leasehold_sessions"), 100.0);
    assert_eq!(metrics.sum("leasehold_holds"), 100.0);
    assert_eq!(metrics.find("leasehold_lost_total").unwrap_or(0.0), 0.0);
    let renewed = metrics.sum("leasehold_renewals_total") - renewed;
    assert!(renewed >= 300.0, "{renewed} renewals in between");
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
    wait::until("the error to be logged", PATIENCE, || async {
        let log = coordinator.log();
        let told = log.contains("not the key of the first certificate");
        if told { Ok(()) } else { Err(log) }
    })
    .await;
    ask(&authority, &endpoint, None).await.unwrap();
    certificates::replace(&server.key, &fs::read_to_string(&next.key).unwrap());
    wait::until("the new certificate to be served", PATIENCE, || async {
        ask(&successors, &endpoint, None).await
    })
    .await;
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
    wait::until("the error to be logged", PATIENCE, || async {
        let log = coordinator.log();
        let told = log.contains("failed to take changed certificates over");
        if told { Ok(()) } else { Err(log) }
    })
    .await;
    limit_open_files(coordinator.id(), before);
    wait::until("the new certificate to be served", PATIENCE, || async {
        ask(&successors, &coordinator.endpoint(), None).await
    })
    .await;
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
    wait::until("the new certificate to be served", PATIENCE, || async {
        ask(&other, &endpoint, None).await
    })
    .await;
    // Without any it can't go on serving as it does: that is told, and nothing changes.
    fs::write(&file, "").unwrap();
    coordinator.child().signal(rustix::process::Signal::HUP);
    wait::until("the warning to be logged", PATIENCE, || async {
        let log = coordinator.log();
        let told = log.contains("tls-cert is not set any more");
        if told { Ok(()) } else { Err(log) }
    })
    .await;
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
    let refused = chain(&site.ask(Some(&old)).await.unwrap_err());
    assert!(refused.contains("UnknownCA"), "{refused}");
}

#[tokio::test]
async fn a_certificate_that_was_revoked_is_refused_and_no_longer_trusted() {
    let (servers, clients) = (Authority::new("servers"), Authority::new("clients"));
    let server = servers.server().issue();
    let mut flags = server.flags().to_vec();
    flags.extend(clients.of_clients());
    flags.push(format!(
        "--tls-client-crl={}",
        clients.revoke(&[]).display()
    ));
    let mut listening = Listening::with(&flags).await;
    let mut trust = listening.tls.clients();
    let (one, other) = (
        clients.client("one").issue(),
        clients.client("other").issue(),
    );
    let soon_gone = clients
        .client("soon gone")
        .expires_in(Duration::from_secs(3))
        .issue();
    let mut chains = Vec::new();
    for own in [&one, &other, &soon_gone] {
        let (mut peer, served) = listening
            .pair(client(&servers, BOTH, &[b"h2"], Some(own)))
            .await;
        peer.write_all(HTTP2).await.unwrap();
        peer.shutdown().await.unwrap();
        soon(served.reading).await.unwrap().unwrap();
        chains.push(served.handle.peer_certificates().unwrap());
    }
    assert!(chains.iter().all(|chain| trust.still_trusted(chain)));
    assert!(!ClientTrust::default().still_trusted(&chains[0]));
    assert!(!trust.still_trusted(&[]));

    clients.revoke(&[&one]);
    soon(trust.changed()).await;
    assert!(!trust.still_trusted(&chains[0]), "it was revoked");
    assert!(trust.still_trusted(&chains[1]));
    let refused = client(&servers, BOTH, &[b"h2"], Some(&one));
    let address = listening.address;
    let dialling = tokio::spawn(crate::tls::listening::hello(address, refused));
    let served = crate::tls::listening::serve(listening.next().await);
    assert!(soon(served.reading).await.unwrap().is_err());
    drop(dialling);
    wait::until("it to expire", PATIENCE, || async {
        if trust.still_trusted(&chains[2]) {
            Err("trusted")
        } else {
            Ok(())
        }
    })
    .await;

    // With another authority in its place nobody of the old one is trusted.
    let successors = Authority::new("successors");
    certificates::replace(&clients.ca(), &fs::read_to_string(successors.ca()).unwrap());
    soon(trust.changed()).await;
    assert!(!trust.still_trusted(&chains[1]));
}
