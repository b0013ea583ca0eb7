//! Help of both programs, which goes to the screens and the logs of others: it has no secret of the environment.

use std::process::Command;

use leasehold_tests::binaries;

const SECRET: &str = "hunter2";
/// Variables that have a secret, or the place of one.
const VARIABLES: [&str; 16] = [
    "LEASEHOLD_CA",
    "LEASEHOLD_CERT",
    "LEASEHOLD_CONFIG",
    "LEASEHOLD_ENDPOINT",
    "LEASEHOLD_KEY",
    "LEASEHOLD_KEY_PREFIX",
    "LEASEHOLD_PROFILE",
    "LEASEHOLD_PROFILES",
    "LEASEHOLD_STORE",
    "LEASEHOLD_STORE_CA",
    "LEASEHOLD_STORE_CERT",
    "LEASEHOLD_STORE_FILE",
    "LEASEHOLD_STORE_KEY",
    "LEASEHOLD_TOKEN",
    "LEASEHOLD_TOKEN_FILE",
    "LEASEHOLD_TOKEN_KEYS",
];

/// Returns the help that a program prints with a secret in all variables.
fn help(program: &str, command: &[&str]) -> String {
    let mut asked = Command::new(binaries::path(program));
    asked.args(command).arg("--help");
    asked.envs(VARIABLES.map(|name| (name, SECRET)));
    let output = asked.output().unwrap();
    assert!(output.status.success(), "{program} {command:?}: {output:?}");
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

#[test]
fn no_help_shows_a_secret_of_the_environment() {
    for (program, command, named) in [
        ("leasehold", &[][..], "LEASEHOLD_TOKEN_FILE"),
        ("leasehold", &["run"], "LEASEHOLD_ENDPOINT"),
        ("leasehold", &["doctor"], "LEASEHOLD_STORE"),
        ("leasehold-server", &[], "LEASEHOLD_STORE"),
        ("leasehold-server", &["probe"], "LEASEHOLD_STORE"),
        ("leasehold-server", &["check-config"], "LEASEHOLD_STORE"),
    ] {
        let help = help(program, command);
        assert!(help.contains(named), "{program} {command:?}: {help}");
        assert!(!help.contains(SECRET), "{program} {command:?}: {help}");
    }
}
