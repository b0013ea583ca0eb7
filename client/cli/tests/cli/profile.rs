//! Profiles: endpoint and token from the user's file.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

use leasehold_tests::Coordinator;

use super::Ran;

fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_profile_has_the_endpoint_and_the_token() {
    let folder = tempfile::tempdir().unwrap();
    let digest = "printf secret-of-tests | sha256sum | cut -d' ' -f1";
    let drawn = Ran::of(Command::new("sh").args(["-c", digest]));
    let tokens = folder.path().join("tokens");
    write(&tokens, &format!("ci sha256:{}", drawn.out));
    let server = folder.path().join("server.toml");
    write(
        &server,
        "[[permission]]\nidentities = [\"token:ci\"]\nlocks = [\"\"]\nallow = [\"inspect\"]\n",
    );
    let flags = [
        "--token-file",
        tokens.to_str().unwrap(),
        "--config",
        server.to_str().unwrap(),
    ];
    let coordinator = Coordinator::in_process_with(flags);
    let endpoint = coordinator.endpoint();
    let file = folder.path().join("config.toml");
    write(&folder.path().join("ci.token"), "secret-of-tests");
    write(
        &file,
        &format!(
            "[profile.file]\nendpoint = \"{endpoint}\"\ntoken-file = \"ci.token\"\n\
             [profile.command]\nendpoint = \"{endpoint}\"\n\
             token-command = [\"sh\", \"-c\", \"echo secret-of-tests\"]\n\
             [profile.bare]\nendpoint = \"{endpoint}\"\n"
        ),
    );
    let run = |args: &[&str], variables: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_leasehold"));
        command
            .args(args)
            .env("LEASEHOLD_PROFILES", &file)
            .envs(variables.iter().copied());
        Ran::of(&mut command)
    };
    for args in [
        &["--profile", "file", "ls"][..],
        &["ls", "--profile", "command"],
    ] {
        // A profile replaces what the environment says of the connection.
        let listed = run(args, &[("LEASEHOLD_ENDPOINT", "http://127.0.0.1:1")]);
        assert_eq!(listed.out, "no locks\n", "{}", listed.err);
    }
    let listed = run(&["ls"], &[("LEASEHOLD_PROFILE", "file")]);
    assert_eq!(listed.out, "no locks\n", "{}", listed.err);
    // An option replaces the profile's.
    let elsewhere = run(
        &[
            "--profile",
            "file",
            "ls",
            "--endpoint",
            "http://127.0.0.1:1",
        ],
        &[],
    );
    elsewhere.ended(69);
    // The environment's token does not go to a profile's endpoint.
    let bare = run(
        &["--profile", "bare", "ls"],
        &[("LEASEHOLD_TOKEN", "secret-of-tests")],
    );
    bare.ended(77);
    let unknown = run(&["--profile", "prod", "ls"], &[]);
    unknown.ended(64);
    let told = unknown.err;
    assert!(
        told.contains("has no profile \"prod\"; it has bare, command, file"),
        "{told}"
    );
}
