//! etcd's lock service, through its own gRPC API: a member of its own, with the settings that it has by default.

use std::{path::Path, time::Duration};

use anyhow::Context;
use etcd_client::{Client, GetOptions, LockOptions};
use tokio::time::timeout;

use crate::rival::{self, Grant, Rival};

/// Longer than any row takes, so that no keepalive is among what is measured. In seconds.
const TTL: i64 = 300;
const START: Duration = Duration::from_secs(20);
/// Type that statfs(2) gives for a file system in memory, where fsync costs nothing.
const TMPFS: u64 = 0x0102_1994;

/// A running etcd. Ended, by its process id, on drop.
pub struct Etcd {
    client: Client,
    server: leasehold_tests::Etcd,
    version: String,
    on: &'static str,
}

impl Etcd {
    /// Starts etcd, and waits until it serves.
    ///
    /// # Errors
    ///
    /// If it is not installed, or does not serve within 20 s.
    pub async fn start() -> anyhow::Result<Self> {
        let server = leasehold_tests::Etcd::start().await;
        let server =
            server.context("etcd is not installed. On Debian: apt-get install etcd-server")?;
        // The client's channel waits for a server that does not answer yet.
        let serving = async {
            let mut client = Client::connect([server.endpoint()], None).await?;
            let status = client.status().await?;
            anyhow::Ok((client, status.version().to_owned()))
        };
        let (client, version) = timeout(START, serving)
            .await
            .with_context(|| format!("etcd did not serve within {START:?}"))??;
        Ok(Self {
            client,
            on: file_system(server.directory())?,
            server,
            version,
        })
    }
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
        let mut client = Client::connect([self.server.endpoint()], None).await?;
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
