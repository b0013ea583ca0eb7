//! `leasehold-server check-config`.

use std::{
    fs::Permissions,
    os::unix::fs::PermissionsExt,
    path::Path,
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
    set_mode(&secret, 0o640);
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

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn secrets_that_everybody_may_read_and_callers_who_may_do_nothing_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let secret = directory.path().join("store");
    std::fs::write(&secret, "redis://:hunter2@127.0.0.1:1\n").unwrap();
    let tokens = directory.path().join("tokens");
    std::fs::write(&tokens, "").unwrap();
    let store = format!("--store-file={}", secret.display());
    let tokens = format!("--token-file={}", tokens.display());
    for (mode, is_told) in [(0o604, true), (0o602, true), (0o660, false)] {
        set_mode(&secret, mode);
        let output = check(&[&store, &tokens]);
        assert!(output.status.success(), "{output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(said.contains("(store-file) is a secret"), is_told, "{said}");
        assert!(said.contains("no table [[permission]]"), "{said}");
    }
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
