//! One member of etcd, with its default settings.

use std::{
    io::ErrorKind,
    process::{Command, Stdio},
    time::Duration,
};

use leasehold_tests::{ChildProcess, ports::free_port, wait};
use tempfile::TempDir;
use tokio::net::TcpStream;

/// Longer than it takes to start.
const STARTED: Duration = Duration::from_secs(20);

/// A member that runs until it is dropped.
pub(crate) struct Etcd {
    port: u16,
    _child: ChildProcess,
    _directory: TempDir,
}

impl Etcd {
    /// Starts one; returns none if it is not installed.
    pub(crate) async fn start() -> anyhow::Result<Option<Self>> {
        match Command::new("etcd").arg("--version").output() {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        let directory = tempfile::tempdir()?;
        let (port, peers) = (free_port(), free_port());
        let (url, peer) = (
            format!("http://127.0.0.1:{port}"),
            format!("http://127.0.0.1:{peers}"),
        );
        let mut command = Command::new("etcd");
        command
            .arg("--data-dir")
            .arg(directory.path())
            .args([
                "--listen-client-urls",
                &url,
                "--advertise-client-urls",
                &url,
            ])
            .args([
                "--listen-peer-urls",
                &peer,
                "--initial-advertise-peer-urls",
                &peer,
            ])
            .args(["--initial-cluster", &format!("default={peer}")])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = ChildProcess::spawn("etcd", command);
        wait::until("etcd to listen", STARTED, || async {
            let connected = TcpStream::connect(("127.0.0.1", port)).await;
            connected.map(drop)
        })
        .await;
        Ok(Some(Self {
            port,
            _child: child,
            _directory: directory,
        }))
    }

    /// Returns its URL.
    pub(crate) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}
