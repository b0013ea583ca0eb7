//! Command line against a coordinator that requires TLS and an identity.

use std::fs;

use leasehold_tests::{Authority, Coordinator};

use super::{Ran, leasehold, output};

#[tokio::test(flavor = "multi_thread")]
async fn commands_come_with_certificates_from_flags_or_the_environment() {
    let (servers, clients) = (Authority::new("servers"), Authority::new("clients"));
    let mut flags = servers.server().issue().flags().to_vec();
    flags.extend(clients.of_clients());
    let coordinator = Coordinator::in_process_with(flags);
    coordinator.ready().await;
    let endpoint = coordinator.endpoint();
    let issued = clients.client("ci").issue();
    let (ca, cert, key) = (
        servers.ca().display().to_string(),
        issued.cert.display().to_string(),
        issued.key.display().to_string(),
    );
    let identity = ["--ca", &ca, "--cert", &cert, "--key", &key];
    for command in [
        &["ls"][..],
        &["get", "a"],
        &["status"],
        &["run", "a", "--", "true"],
        &["bench", "--duration", "1s", "--clients", "2", "--quiet"],
    ] {
        let (first, rest) = command.split_first().unwrap();
        let args = [&[*first], &identity[..], rest].concat();
        let output = output(&endpoint, &args);
        output.ended(0);
    }
    let mut command = leasehold(&endpoint, &["ls"]);
    command
        .env("LEASEHOLD_CA", &ca)
        .env("LEASEHOLD_CERT", &cert);
    let by_environment = Ran::of(command.env("LEASEHOLD_KEY", &key));
    assert_eq!(by_environment.out, "no locks\n");

    // Without a certificate of ours, and without one of theirs that is trusted.
    for args in [
        &["ls", "--ca", &ca][..],
        &["run", "a", "--ca", &cert, "--", "true"],
    ] {
        let output = output(&endpoint, args);
        output.ended(77).says(&["ertificate"]);
    }
    // What is wrong with the command line itself.
    for (args, says) in [
        (&["ls", "--cert", &cert][..], "--cert needs the --key"),
        (
            &["ls", "--ca", "/nonexistent/ca.pem"],
            "could not read /nonexistent/ca.pem",
        ),
        (
            &["ls", "--ca", &ca, "--token-file", "/nonexistent/token"],
            "/nonexistent/token",
        ),
    ] {
        let output = output(&endpoint, args);
        output.ended(64).says(&[says]);
    }
}

#[test]
fn a_token_is_never_shown_nor_sent_to_where_others_can_read_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("token");
    fs::write(&path, "lh_verysecret\n").unwrap();
    let file = path.display().to_string();
    // Nobody is there.
    let elsewhere = "http://192.0.2.1:7420";
    let mut by_environment = leasehold(elsewhere, &["ls"]);
    by_environment.env("LEASEHOLD_TOKEN", "lh_verysecret");
    for output in [
        output(elsewhere, &["ls", "--token-file", &file]),
        output(
            elsewhere,
            &["run", "a", "--token-file", &file, "--", "true"],
        ),
        Ran::of(&mut by_environment),
    ] {
        output.ended(64).says(&["https://"]);
        assert!(!output.err.contains("verysecret"));
    }
}
