//! Programs of the clients: how each is built and started, and what it prints when all is well.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use leasehold_tests::{
    binaries,
    node::{self, Started},
    tools::installed,
};

/// Program that calls as a client does.
pub(crate) struct Program {
    pub(crate) name: &'static str,
    /// Starts it, or says what is missing.
    pub(crate) start: fn() -> Result<Started, String>,
    /// Set for a web page, which prints its origin first.
    pub(crate) is_page: bool,
    /// The ways that it prints.
    pub(crate) ways: &'static [&'static str],
}

/// Ways of the programs that choose the version of HTTP.
const ALL: &[&str] = &[
    "connect proto HTTP/1.1",
    "connect proto HTTP/2",
    "connect json HTTP/1.1",
    "connect json HTTP/2",
    "grpc-web HTTP/1.1",
    "grpc-web HTTP/2",
    "grpc HTTP/2",
];

/// All programs.
pub(crate) const PROGRAMS: &[Program] = &[
    Program {
        name: "curl",
        start: curl,
        is_page: false,
        ways: &["json HTTP/1.1", "json HTTP/2"],
    },
    Program {
        name: "connect-go",
        start: go,
        is_page: false,
        ways: ALL,
    },
    Program {
        name: "connect-node",
        start: || node::command("node.mjs").map(Started::new),
        is_page: false,
        ways: ALL,
    },
    Program {
        name: "connect-web",
        start: || node::with_chromium("browser.mjs").map(Started::new),
        is_page: true,
        ways: &[
            "connect json HTTP/2",
            "connect proto HTTP/2",
            "grpc-web HTTP/2",
            "origins HTTP/2",
            "connect json HTTP/1.1",
            "connect proto HTTP/1.1",
            "grpc-web HTTP/1.1",
            "origins HTTP/1.1",
        ],
    },
];

fn clients() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/connect/clients")
}

fn curl() -> Result<Started, String> {
    installed("curl")?;
    Ok(Started::new(Command::new(clients().join("curl"))))
}

fn go() -> Result<Started, String> {
    installed("go")?;
    let program = binaries::target_directory().join("connect-clients/go");
    let built = Command::new("go")
        .current_dir(clients().join("go"))
        .args(["build", "-o"])
        .arg(&program)
        .arg(".")
        .status()
        .expect("go can be run");
    assert!(built.success(), "failed to build the client in Go: {built}");
    Ok(Started::new(Command::new(program)))
}
