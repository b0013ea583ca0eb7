//! `leasehold-server probe`, the health check of machines that have no curl.

use std::process::Output;

use leasehold_tests::{Coordinator, ports::free_port};

/// What a probe of the admin port at this address comes to.
fn probe(admin: &str) -> (Option<i32>, String) {
    let mut command = Coordinator::process()
        .arguments(["--admin-listen", admin, "probe"])
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
