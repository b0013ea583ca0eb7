//! `leasehold-server probe`, the health check of machines that have no curl.

use std::process::Output;

use leasehold_tests::{Authority, Coordinator, ports::free_port, raw::PROMPT, wait};

/// Runs a probe of the admin port at this address, and returns its exit code and its output.
fn probe(admin: &str) -> (Option<i32>, String) {
    probe_with(admin, &[])
}

/// Does the same with these flags.
fn probe_with(admin: &str, flags: &[String]) -> (Option<i32>, String) {
    let mut command = Coordinator::process()
        .arguments(["--admin-listen", admin, "probe"])
        .arguments(flags.iter().cloned())
        .command();
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    let said = [stdout, stderr].concat();
    (status.code(), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn a_probe_tells_who_serves_and_who_does_not() {
    let coordinator = Coordinator::process().start();
    let ready = probe(coordinator.admin_endpoint().trim_start_matches("http://"));
    assert_eq!(ready, (Some(0), "ready\n".to_owned()));

    let store = format!("redis://127.0.0.1:{}", free_port());
    let coordinator = Coordinator::process().store(store).start_unready();
    let (code, said) = probe(coordinator.admin_endpoint().trim_start_matches("http://"));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.starts_with("leasehold-server: not ready: "), "{said}");

    let nobody = format!("127.0.0.1:{}", free_port());
    let (code, said) = probe(&nobody);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(&nobody), "{said}");
}

#[test]
fn a_probe_speaks_tls_where_the_admin_port_does() {
    let authority = Authority::new("servers");
    // Clients know it by a name; a probe by the address that it listens on.
    let mut flags = authority.server().issue().flags().to_vec();
    flags.push("--admin-tls".to_owned());
    let coordinator = Coordinator::process()
        .arguments(flags.iter().cloned())
        .start_unready();
    let admin = coordinator.admin_endpoint();
    let admin = admin.trim_start_matches("https://");
    wait::until_blocking("the probe to succeed", PROMPT, || {
        match probe_with(admin, &flags) {
            (Some(0), said) if said == "ready\n" => Ok(()),
            other => Err(other),
        }
    });
    // Without TLS it is told what it talks to, or hung up on.
    let (code, said) = probe(admin);
    assert_eq!(code, Some(1), "{said}");
}
