//! etcd's lock service, through its own gRPC API: a member of its own, with the settings that it has by default.

use std::{
    env, fs,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use etcd_client::{Client, GetOptions, LockOptions};
use leasehold_tests::{ChildProcess, ports::free_port};
use tempfile::TempDir;

use crate::rival::{self, Grant, Rival};

/// Longer than any row takes, so that no keepalive is among what is measured. In seconds.
const TTL: i64 = 300;
const START: Duration = Duration::from_secs(20);
const ATTEMPTS: u32 = 5;
/// Type that statfs(2) gives for a file system in memory, where fsync costs nothing.
const TMPFS: u64 = 0x0102_1994;

/// A running etcd. Ended, by its process id, on drop.
pub struct Etcd {
    client: Client,
    endpoint: String,
    version: String,
    on: &'static str,
    _child: ChildProcess,
    _directory: TempDir,
}

impl Etcd {
    /// Starts etcd on free ports of loopback with an empty data directory, and waits until it serves.
    ///
    /// # Errors
    ///
    /// If it is not installed, or does not serve within 20 s.
    pub async fn start() -> anyhow::Result<Self> {
        installed()?;
        for _ in 0..ATTEMPTS {
            if let Some(started) = Self::launch().await? {
                return Ok(started);
            }
        }
        bail!("etcd found no free port in {ATTEMPTS} attempts")
    }

    /// Returns `None` if one of the ports was taken in the meantime.
    async fn launch() -> anyhow::Result<Option<Self>> {
        let directory = tempfile::tempdir().context("failed to make a directory for etcd")?;
        let (port, peers) = (free_port(), free_port());
        let endpoint = format!("http://127.0.0.1:{port}");
        // Whoever else could serve on this port has another name.
        let name = format!("leasehold-bench-{}-{port}", std::process::id());
        let log = directory.path().join("etcd.log");
        let command = command(&name, &endpoint, peers, directory.path(), &log)?;
        let mut child = ChildProcess::spawn("etcd", command);
        let began = Instant::now();
        loop {
            if child.try_wait().is_some() {
                let log = fs::read_to_string(&log).unwrap_or_default();
                if log.contains("address already in use") {
                    return Ok(None);
                }
                let last = log.lines().last().unwrap_or("it said nothing");
                bail!("etcd ended at its start: {last}");
            }
            match serving(&endpoint, &name).await {
                Ok((client, version)) => {
                    return Ok(Some(Self {
                        client,
                        endpoint,
                        version,
                        on: file_system(directory.path())?,
                        _child: child,
                        _directory: directory,
                    }));
                }
                Err(error) if began.elapsed() > START => {
                    return Err(error.context(format!("etcd did not serve within {START:?}")));
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }
}

fn installed() -> anyhow::Result<()> {
    let mut version = Command::new("etcd");
    version.arg("--version").stdout(Stdio::null());
    version
        .status()
        .context("failed to run etcd: is it installed? On Debian: apt-get install etcd-server")?;
    Ok(())
}

fn command(
    name: &str,
    endpoint: &str,
    peers: u16,
    directory: &Path,
    log: &Path,
) -> anyhow::Result<Command> {
    let peers = format!("http://127.0.0.1:{peers}");
    let mut command = Command::new("etcd");
    // Its settings can be given in the environment too, and are to be the default ones.
    for (variable, _) in env::vars_os() {
        if variable.to_string_lossy().starts_with("ETCD_") {
            command.env_remove(variable);
        }
    }
    command
        .current_dir(directory)
        .args(["--name", name])
        .arg("--data-dir")
        .arg(directory.join("data"))
        .args(["--listen-client-urls", endpoint])
        .args(["--advertise-client-urls", endpoint])
        .args(["--listen-peer-urls", &peers])
        .args(["--initial-advertise-peer-urls", &peers])
        .args(["--initial-cluster", &format!("{name}={peers}")])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(fs::File::create(log)?);
    Ok(command)
}

/// Returns a client of the member `name`, and the member's version, once it has a leader.
async fn serving(endpoint: &str, name: &str) -> anyhow::Result<(Client, String)> {
    let attempt = async {
        let mut client = Client::connect([endpoint], None).await?;
        let status = client.status().await?;
        ensure!(status.leader() != 0, "etcd has no leader");
        let members = client.member_list().await?;
        ensure!(
            members.members().iter().any(|member| member.name() == name),
            "another etcd serves on this port"
        );
        Ok((client, status.version().to_owned()))
    };
    // The client's channel waits for a server that is not there yet.
    tokio::time::timeout(Duration::from_secs(1), attempt).await?
}

fn file_system(directory: &Path) -> anyhow::Result<&'static str> {
    let kind = rustix::fs::statfs(directory)?.f_type;
    Ok(if u64::try_from(kind) == Ok(TMPFS) {
        "in memory"
    } else {
        "on disk"
    })
}

impl Rival for Etcd {
    type Session = Session;

    const QUEUES: bool = true;

    fn version(&self) -> &str {
        &self.version
    }

    fn settings(&self) -> String {
        format!(
            "one member with its default settings, which sync every commit to its data directory ({}); a connection and \
             a lease for each client",
            self.on
        )
    }

    async fn session(&self) -> anyhow::Result<Session> {
        let mut client = Client::connect([&self.endpoint], None).await?;
        let lease = client.lease_grant(TTL, None).await?.id();
        Ok(Session { client, lease })
    }

    async fn known(&self) -> anyhow::Result<u64> {
        // Each acquire has a key of its own from when it is queued until its release; a grant is to the oldest.
        let everything = GetOptions::new().with_all_keys().with_count_only();
        let found = self.client.kv_client().get("", Some(everything)).await?;
        Ok(u64::try_from(found.count())?)
    }
}

/// A client with a connection and a lease of its own. Its locks differ in their names.
#[derive(Clone)]
pub struct Session {
    client: Client,
    lease: i64,
}

impl rival::Session for Session {
    type Hold = Vec<u8>;

    async fn acquire(&mut self, name: &str) -> anyhow::Result<Grant<Vec<u8>>> {
        let options = LockOptions::new().with_lease(self.lease);
        let granted = self.client.lock(name, Some(options)).await?;
        let header = granted.header().context("etcd answered without a header")?;
        Ok(Grant {
            // Where nobody waits, this is the revision that created the lock's key. A waiter is told the revision at which
            // it saw that the key before its own was gone, which is later still: either way it rises with every grant.
            token: Some(header.revision()),
            hold: granted.key().to_vec(),
        })
    }

    async fn release(&mut self, key: Vec<u8>) -> anyhow::Result<()> {
        self.client.unlock(key).await?;
        Ok(())
    }
}
