//! Messages about endpoints and TLS: what went wrong, where, and what to do.

use std::net::TcpListener;

use leasehold_tests::{Authority, Coordinator, FaultProxy, certificates::Issued, proxy::Cut};

use serde_json::Value;

use super::{
    LIMIT,
    json_errors::{decisive, decisive_of, error},
    output, spawn_merged,
};

/// Runs one command that calls and one that opens a session with a mistake, and compares their messages.
#[track_caller]
fn check(what: &str, endpoint: &str, args: &[&str], code: i32, says: &[&str]) {
    for (command, tail) in [(&["ls"][..], &[][..]), (&["run", "a"], &["--", "true"])] {
        let ran = output(endpoint, &[command, args, tail].concat());
        assert_eq!(ran.code, Some(code), "{what}: {ran:?}");
        ran.says(says);
        assert!(ran.err.lines().count() <= 1, "{what}: {ran:?}");
    }
}

async fn serving(certificate: &Issued) -> Coordinator {
    let coordinator = Coordinator::in_process_with(certificate.flags());
    coordinator.ready().await;
    coordinator
}

#[tokio::test(flavor = "multi_thread")]
async fn each_mistake_is_told_with_its_place_and_its_remedy() {
    let plain = Coordinator::in_process();
    plain.ready().await;
    let plain_url = plain.endpoint();
    let plain_address = plain_url.replace("http://", "");
    let authority = Authority::new("servers");
    let encrypted = serving(&authority.server().issue()).await;
    let encrypted_url = encrypted.endpoint();
    let (as_ca, as_none) = (authority.self_signed(true), authority.self_signed(false));
    let (by_ca, by_none) = (serving(&as_ca).await, serving(&as_none).await);
    let ca = authority.ca().display().to_string();
    let others = Authority::new("others");
    let stranger = others.ca().display().to_string();
    let (as_ca, as_none) = (
        as_ca.cert.display().to_string(),
        as_none.cert.display().to_string(),
    );
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let closed_address = closed.local_addr().unwrap().to_string();
    drop(closed);
    let closed_url = format!("http://{closed_address}");
    check("no scheme", &plain_address, &[], 0, &[]);
    // Nothing of these tests listens at this address.
    check(
        "no port",
        "127.77.0.1",
        &[],
        69,
        &["http://127.77.0.1:7420", "connection refused"],
    );
    check(
        "no scheme, nobody there",
        &closed_address,
        &[],
        69,
        &[
            &closed_url,
            "connection refused; check the address and the port",
        ],
    );
    check(
        "another scheme",
        "ftp://locks.example",
        &[],
        64,
        &["\"ftp://locks.example\"", "https://locks.example:7420"],
    );
    check(
        "no number as port",
        "127.0.0.1:x",
        &[],
        64,
        &["127.0.0.1:x", "HOST:PORT"],
    );
    check(
        "no such host",
        "nobody.invalid",
        &[],
        69,
        &["http://nobody.invalid:7420", "no address; check the name"],
    );
    check(
        "https to a plain port",
        &plain_url.replace("http", "https"),
        &["--ca", &ca],
        69,
        &["does not speak TLS", &format!("use {plain_url}")],
    );
    check(
        "http to a port with TLS",
        &encrypted_url.replace("https", "http"),
        &[],
        69,
        &["speaks TLS", &format!("use {encrypted_url}")],
    );
    check(
        "the admin port",
        &plain.admin_endpoint(),
        &[],
        69,
        &[
            &plain.admin_endpoint(),
            "does not speak HTTP/2",
            "gRPC port (7420",
        ],
    );
    check(
        "a self-signed certificate of a CA, given as CA",
        &by_ca.endpoint(),
        &["--ca", &as_ca],
        77,
        &[&by_ca.endpoint(), "CaUsedAsEndEntity", "CA:FALSE"],
    );
    // What that message advises.
    check(
        "a self-signed one of no CA",
        &by_none.endpoint(),
        &["--ca", &as_none],
        0,
        &[],
    );
    check(
        "another authority",
        &encrypted_url,
        &["--ca", &stranger],
        77,
        &[&encrypted_url, "UnknownIssuer", "trust the CA"],
    );
}

#[tokio::test]
async fn a_stream_that_a_restart_breaks_is_told_with_its_place() {
    let coordinator = Coordinator::in_process();
    let proxy = FaultProxy::before(&coordinator.endpoint()).await;
    let endpoint = proxy.endpoint();
    let (mut watch, mut lines) = spawn_merged(&endpoint, &["watch"]);
    lines.expect("-", LIMIT).await;
    // Further attempts are accepted and stay without an answer: the break is the last thing that is known.
    proxy.black_hole();
    proxy.cut(Cut::Fin).await;
    let (_, line) = lines.expect("leasehold: ", LIMIT).await;
    let broke = "broke, as it does when a coordinator stops or restarts";
    let parts = [&*endpoint, broke, "retrying until a coordinator serves"];
    assert!(parts.iter().all(|part| line.contains(part)), "{line}");
    assert!(!line.contains("h2"), "{line}");
    watch.terminate();
    watch.wait(LIMIT).await;
}

#[test]
fn every_command_names_the_endpoint_that_it_could_not_reach() {
    let endpoint = "http://127.0.0.1:1";
    for args in [
        &["ls"][..],
        &["get", "a"],
        &["release", "a", "--force"],
        &["leader", "a"],
        &["observe", "a"],
        &["watch"],
        &["bench"],
        &["status"],
        &["run", "a", "--", "true"],
        &["elect", "a", "--", "true"],
    ] {
        let ran = output(endpoint, args);
        ran.ended(69);
        let told = format!("{}{}", ran.out, ran.err);
        let parts = [endpoint, "connection refused", "check the address"];
        let is_told = parts.iter().all(|part| told.contains(part));
        assert!(is_told, "{args:?}: {told}");
        // These have errors of their own under `--json`.
        if args[0] == "status" || args.contains(&"--") {
            continue;
        }
        let (code, error) = error(endpoint, args);
        assert_eq!(code, Some(69), "{args:?}");
        let expected = decisive_of("UNAVAILABLE", None, "yes", Some(endpoint));
        assert_eq!(decisive(&error), expected, "{args:?}: {error}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("connection refused"), "{message}");
        assert_eq!(error["retryAfter"], Value::Null);
    }
    // Whatever it answers, whoever asked wants to know who it was.
    let coordinator = Coordinator::in_process();
    let long = "x".repeat(513);
    output(&coordinator.endpoint(), &["run", &long, "--", "true"]).says(&[&coordinator.endpoint()]);
}
