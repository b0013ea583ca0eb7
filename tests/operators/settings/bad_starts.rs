//! Starts with a configuration that is wrong. The coordinator checks all settings and files before it prints or serves
//! anything, tells every fault at once, and `check-config` tells the same.

use std::{
    net::TcpListener,
    process::{Output, Stdio},
};

use leasehold_tests::{Authority, Coordinator, CoordinatorProcess, binaries, ports::free_port};
use tokio::process::Command;

use super::LIMIT;

const BAD_CONFIGURATION: i32 = 64;

async fn output(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(binaries::path("leasehold-server"));
    command
        .args(arguments)
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let ended = tokio::time::timeout(LIMIT, command.output()).await;
    ended.expect("it ends by itself").unwrap()
}

/// Starts with these arguments and checks them, and expects both to tell the same faults: one a line, each with its words.
async fn refused(arguments: &[&str], environment: &[(&str, &str)], faults: &[&[&str]]) {
    let ports = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
    let ports = if arguments.contains(&"--listen") {
        &ports[2..]
    } else {
        &ports[..]
    };
    let arguments = [ports, arguments].concat();
    let started = output(&arguments, environment).await;
    let checked = output(&[&["check-config"], &arguments[..]].concat(), environment).await;
    let said = String::from_utf8(started.stderr).unwrap();
    assert_eq!(said, String::from_utf8(checked.stderr).unwrap());
    assert_eq!(said.lines().count(), faults.len(), "{arguments:?}: {said}");
    for (line, words) in said.lines().zip(faults) {
        for word in *words {
            assert!(line.contains(word), "no {word:?} in {line:?}");
        }
    }
    for ended in [started.status, checked.status] {
        assert_eq!(ended.code(), Some(BAD_CONFIGURATION), "{arguments:?}");
    }
    for printed in [started.stdout, checked.stdout] {
        assert!(printed.is_empty(), "{arguments:?} printed {printed:?}");
    }
}

#[tokio::test]
async fn a_missing_file_of_each_kind_is_told_before_anything_is_printed() {
    let authority = Authority::new("servers");
    let server = authority.server().issue();
    let cert = server.cert.display().to_string();
    let key = server.key.display().to_string();
    let tls = ["--tls-cert", &cert, "--tls-key", &key];
    let store = ["--store", "rediss://127.0.0.1:1"];
    let jwt = ["--jwt-issuer", "https://i", "--jwt-audience", "a"];
    for (with, files) in [
        (&[][..], &["config"][..]),
        (&[], &["store-file"]),
        (&[], &["tls-cert", "tls-key"]),
        (&tls[2..], &["tls-cert"]),
        (&tls[..2], &["tls-key"]),
        (&tls, &["tls-client-ca"]),
        (&tls, &["tls-client-ca", "tls-client-crl"]),
        (&store, &["store-ca"]),
        (&store, &["store-ca", "store-cert", "store-key"]),
        (&[], &["token-file"]),
        (&jwt, &["jwt-keys"]),
    ] {
        let missing: Vec<_> = files
            .iter()
            .map(|name| (format!("--{name}"), format!("/no/such/{name}")))
            .collect();
        let given = missing.iter().flat_map(|(flag, path)| [&**flag, &**path]);
        let arguments: Vec<_> = with.iter().copied().chain(given).collect();
        let words: Vec<_> = missing.iter().map(|(_, path)| [&**path]).collect();
        let faults: Vec<_> = words.iter().map(|words| &words[..]).collect();
        refused(&arguments, &[], &faults).await;
    }
}

#[tokio::test]
async fn all_faults_are_told_at_once() {
    refused(
        &[
            "--tls-cert=/no/such/cert",
            "--tls-key=/no/such/key",
            "--token-file=/no/such/tokens",
            "--min-ttl=soon",
            "--max-sessions=none",
        ],
        &[("LEASEHOLD_LOG_FORMAT", "xml")],
        &[
            &["log-format", "environment LEASEHOLD_LOG_FORMAT"],
            &["min-ttl", "flag --min-ttl", "\"soon\""],
            &["max-sessions", "\"none\""],
            &["/no/such/cert", "tls-cert"],
            &["/no/such/key", "tls-key"],
            &["/no/such/tokens", "token-file"],
        ],
    )
    .await;
    // Contradictions, and a file beside them.
    refused(
        &["--min-ttl=1m", "--max-ttl=1s", "--tls-cert=/no/such/cert"],
        &[],
        &[
            &["min-ttl is 1m", "default-ttl"],
            &["default-ttl", "max-ttl is 1s"],
            &["tls-key is not set"],
            &["/no/such/cert"],
        ],
    )
    .await;
}

#[tokio::test]
async fn both_ports_that_are_in_use_are_named() {
    let [one, other] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [grpc, admin] = [&one, &other].map(|port| port.local_addr().unwrap().to_string());
    let output = output(&["--listen", &grpc, "--admin-listen", &admin], &[]).await;
    let said = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines.len(), 2, "{said}");
    assert!(lines[0].contains(&grpc), "{said}");
    assert!(lines[1].contains(&admin), "{said}");
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(output.stdout.is_empty(), "{:?}", output.stdout);
}

#[tokio::test]
async fn a_required_store_that_is_away_is_the_only_complaint() {
    let url = format!("redis://:hunter2@127.0.0.1:{}", free_port());
    let output = output(
        &[
            "--listen=127.0.0.1:0",
            "--admin-listen=127.0.0.1:0",
            "--require-store",
            "--store-timeout=50ms",
            &format!("--store={url}"),
        ],
        &[],
    )
    .await;
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(output.stdout.is_empty(), "{:?}", output.stdout);
    assert!(said.contains("--require-store"), "{said}");
    assert!(!said.contains("ERROR"), "{said}");
    assert!(!said.contains("hunter2"), "{said}");
}

/// Returns everything that `leasehold` reads from the environment.
fn variables_of_the_command_line() -> Vec<String> {
    let mut help = std::process::Command::new(binaries::path("leasehold"));
    let help = help.args(["run", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let names = help.split("[env: ").skip(1);
    let names = names.filter_map(|rest| rest.split(['=', ']']).next());
    names.map(str::to_owned).collect()
}

#[tokio::test]
async fn a_misspelt_variable_is_told_and_no_other() {
    let warning = "LEASEHOLD_STORRE is no setting and has no effect; did you mean LEASEHOLD_STORE?";
    let others = variables_of_the_command_line();
    assert!(others.len() >= 5, "{others:?}");
    let kubernetes = ["LEASEHOLD_SERVICE_HOST", "LEASEHOLD_PORT_7420_TCP_ADDR"];
    let known = others.iter().map(String::as_str).chain(kubernetes);
    // One that is set to nothing has no effect, and is looked at all the same.
    let mut environment: Vec<_> = known.map(|name| (name, "")).collect();
    environment.push(("LEASEHOLD_STORRE", "redis://:hunter2@h"));

    let checked = output(&["check-config"], &environment).await;
    let said = String::from_utf8(checked.stderr).unwrap();
    assert_eq!(
        said,
        format!("warning: the environment variable {warning}\n")
    );
    assert_eq!(checked.stdout, b"ok\n");

    let options = environment
        .iter()
        .fold(Coordinator::process(), |options, (name, value)| {
            options.environment(name, value)
        });
    let coordinator = options.start();
    coordinator.logged(&["WARN", warning]).await;
    let log = coordinator.log();
    assert_eq!(log.matches("WARN").count(), 1, "{log}");
    assert!(!log.contains("hunter2"), "{log}");
}

#[tokio::test]
async fn the_first_log_line_tells_what_starts() {
    let authority = Authority::new("servers");
    let server = authority.server().issue();
    let first = |coordinator: &CoordinatorProcess| {
        let log = coordinator.log();
        log.lines().next().unwrap_or_default().to_owned()
    };
    let plain = Coordinator::process()
        .store("redis://:hunter2@127.0.0.1:1")
        .arguments(["--store-timeout=50ms", "--name=first"])
        .start_unready();
    let grpc = plain.endpoint();
    let admin = plain.admin_endpoint();
    let line = first(&plain);
    for words in [
        concat!("version=\"", env!("CARGO_PKG_VERSION"), "\""),
        "name=\"first\"",
        "store=redis://:***@127.0.0.1:1",
        &format!("grpc=\"{}\"", grpc.trim_start_matches("http://")),
        &format!("admin=\"{}\"", admin.trim_start_matches("http://")),
        "tls=\"off\"",
    ] {
        assert!(line.contains(words), "no {words} in {line}");
    }
    let encrypted = Coordinator::process().arguments(server.flags()).start();
    let line = first(&encrypted);
    assert!(line.contains("tls=\"on\""), "{line}");
    assert!(line.contains("admin_tls=\"off\""), "{line}");
}
