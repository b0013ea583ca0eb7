//! `leasehold-server check-config`.

use std::{
    process::{Command, Output},
    time::{Duration, SystemTime},
};

use leasehold_tests::{Authority, binaries};

fn check(arguments: &[&str]) -> Output {
    let mut command = Command::new(binaries::path("leasehold-server"));
    command.arg("check-config").args(arguments);
    command.output().unwrap()
}

#[test]
fn a_right_configuration_is_ok_and_nothing_is_served() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("leasehold.toml");
    std::fs::write(&file, "log = \"debug\"\n").unwrap();
    let secret = directory.path().join("store");
    // A store that nobody serves: a check asks nobody.
    std::fs::write(&secret, "redis://:hunter2@127.0.0.1:1\n").unwrap();
    let output = check(&[
        "--config",
        file.to_str().unwrap(),
        "--store-file",
        secret.to_str().unwrap(),
    ]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(output.stdout, b"ok\n");
    assert!(output.stderr.is_empty(), "{output:?}");
}

#[test]
fn everything_that_is_wrong_is_told_with_its_place() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("leasehold.toml");
    std::fs::write(
        &file,
        "# mine\nmax-sesions = 1\nmin-ttl = \"soon\"\nstore = \"etcd://:hunter2@h\"\n",
    )
    .unwrap();
    let path = file.to_str().unwrap();
    let output = check(&["--config", path, "--max-wait", "never"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(64), "{said}");
    assert!(output.stdout.is_empty(), "{:?}", output.stdout);
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines.len(), 4, "{said}");
    for (line, words) in lines.iter().zip([
        ["line 2, column 1", "did you mean \"max-sessions\"?"],
        ["line 3, column 11", "expected a duration from 100ms"],
        ["line 4, column 9", "expected \"memory:\""],
        ["flag --max-wait", "expected a duration from 1ms"],
    ]) {
        for word in words {
            assert!(line.contains(word), "no {word:?} in {line:?}");
        }
    }
    assert_eq!(said.matches(path).count(), 3, "{said}");
    assert!(!said.contains("hunter2"), "{said}");
}

#[test]
fn certificates_that_are_about_to_expire_are_named_and_wrong_is_something_else() {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    let authority = Authority::new("servers");
    let now = SystemTime::now();
    let issue = |until| authority.server().valid(now - DAY * 30, until).issue();
    let good = issue(now + DAY * 15);
    let soon = issue(now + DAY * 13 + DAY / 2);
    let over = issue(now - DAY);
    for (serving, to_store, told) in [
        (&good, &good, vec![]),
        (&soon, &good, vec![(&soon, "tls-cert", "less than 14 days")]),
        (
            &over,
            &soon,
            vec![
                (&over, "tls-cert", "expired at"),
                (&soon, "store-cert", "less than 14 days"),
            ],
        ),
    ] {
        let store = [
            "--store=rediss://h".to_owned(),
            format!("--store-cert={}", to_store.cert.display()),
            format!("--store-key={}", to_store.key.display()),
        ];
        let flags = [&serving.flags()[..], &store].concat();
        let output = check(&flags.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(output.status.success(), "{output:?}");
        assert_eq!(output.stdout, b"ok\n");
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(said.lines().count(), told.len(), "{said}");
        for (line, (issued, setting, what)) in said.lines().zip(told) {
            let file = issued.cert.display().to_string();
            for word in ["warning: ", &file, setting, what] {
                assert!(line.contains(word), "no {word:?} in {line:?}");
            }
        }
    }
}
