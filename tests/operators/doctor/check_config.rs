//! `leasehold-server check-config --connect`.

use std::process::{Command, Output};

use leasehold_tests::{RedisServer, binaries};

fn check(store: &str, arguments: &[&str]) -> (Output, String) {
    let mut command = Command::new(binaries::path("leasehold-server"));
    command
        .args(["check-config", "--store", store])
        .args(arguments);
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    (output, said)
}

#[test]
fn the_store_is_checked_when_that_is_asked_for() {
    let mut redis = RedisServer::options()
        .append_only()
        .password("secret")
        .start();
    let url = redis.url();
    let (output, said) = check(&url, &["--connect"]);
    assert_eq!((output.status.code(), said.as_str()), (Some(0), ""));
    assert_eq!(output.stdout, b"ok\n");

    // Warnings are no reason to stop.
    let mut connection = redis.connection();
    let mut set = |setting: &str, value: &str| {
        let mut command = redis::cmd("CONFIG");
        command.arg("SET").arg(setting).arg(value);
        command.exec(&mut connection).unwrap();
    };
    set("maxmemory-policy", "allkeys-lru");
    let (output, said) = check(&url, &["--connect"]);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert_eq!(output.stdout, b"ok\n");
    assert!(said.starts_with("warning: Redis at "), "{said}");

    // Errors are.
    set("maxmemory", "100mb");
    let (output, said) = check(&url, &["--connect"]);
    assert_eq!(output.status.code(), Some(6), "{said}");
    assert_eq!(output.stdout, b"");
    for words in [
        "error: Redis at ",
        "allkeys-lru",
        "noeviction",
        "docs/doctor.md#evicts",
    ] {
        assert!(said.contains(words), "no {words:?}: {said}");
    }
    assert_eq!(check(&url, &[]).0.status.code(), Some(0));
    let (output, said) = check(&url, &["--connect", "--min-replicas", "1"]);
    assert_eq!(output.status.code(), Some(6), "{said}");
    assert!(said.contains("#replica-away"), "{said}");

    let wrong = url.replace("secret", "hunter2");
    let (output, said) = check(&wrong, &["--connect"]);
    assert_eq!(output.status.code(), Some(6), "{said}");
    assert!(
        said.contains("#store-refuses") && !said.contains("hunter2"),
        "{said}"
    );

    redis.kill();
    let (output, said) = check(&url, &["--connect"]);
    assert_eq!(output.status.code(), Some(69), "{said}");
    assert!(said.contains("#store-unreachable"), "{said}");
    assert_eq!(check("memory:", &["--connect"]).0.status.code(), Some(0));
}

#[test]
fn a_wrong_configuration_connects_to_nothing() {
    let (output, said) = check("redis://127.0.0.1:1", &["--connect", "--max-wait", "never"]);
    assert_eq!(output.status.code(), Some(64), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}
