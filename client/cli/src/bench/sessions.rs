//! Sessions of the clients: opened before the measurement, closed after it.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context, bail};
use leasehold_client::Session;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::task::JoinSet;

use super::{options::BenchOptions, progress::Progress};
use crate::connection::Connection;

/// Sessions that are opened at once: a coordinator bounds the connections in their handshake.
const OPENED_AT_ONCE: usize = 64;
/// Open files of this process besides its sessions' connections.
const OTHER_FILES: u64 = 64;

/// One session for each client.
pub(super) struct Sessions {
    pub(super) all: Vec<Session>,
    /// The coordinators that serve them: several behind a load balancer.
    pub(super) coordinators: BTreeSet<String>,
    /// The TTL in force.
    pub(super) ttl: Duration,
}

impl Sessions {
    /// Opens one for each client. Opens the first one alone: if it is refused, so are the others.
    pub(super) async fn open(
        connection: &Connection,
        options: &BenchOptions,
        progress: &Progress,
    ) -> anyhow::Result<Self> {
        let clients = options.clients as usize;
        allow_connections(options.clients.into())?;
        let mut builder = connection
            .measuring_builder()
            .client_name("leasehold bench");
        if let Some(ttl) = options.ttl {
            builder = builder.ttl(ttl);
        }
        let client = builder.connect(connection.endpoint.as_str()).await?;
        let mut sessions = Self {
            all: Vec::with_capacity(clients),
            coordinators: BTreeSet::new(),
            ttl: Duration::ZERO,
        };
        sessions.add(client.default_session().clone());
        let mut opening = JoinSet::new();
        let mut begun = 1;
        while sessions.all.len() < clients {
            progress.opened(sessions.all.len());
            while begun < clients && opening.len() < OPENED_AT_ONCE {
                opening.spawn(client.session().open());
                begun += 1;
            }
            let Some(opened) = opening.join_next().await else {
                bail!("sessions were not opened");
            };
            let opened = opened?.with_context(|| {
                let number = sessions.all.len();
                format!("failed to open more than {number} of {clients} sessions")
            })?;
            sessions.add(opened);
        }
        Ok(sessions)
    }

    fn add(&mut self, session: Session) {
        if let Some(info) = session.info() {
            self.coordinators.insert(info.coordinator);
            self.ttl = info.ttl;
        }
        self.all.push(session);
    }

    /// Closes them, so that the coordinator need not notice their loss.
    pub(super) async fn close(&self) {
        let mut closing = JoinSet::new();
        for session in &self.all {
            let session = session.clone();
            closing.spawn(async move { session.close().await });
        }
        closing.join_all().await;
    }
}

/// Raises the limit of open files, which is often low: each connection needs one.
fn allow_connections(clients: u64) -> anyhow::Result<()> {
    let needed = clients + OTHER_FILES;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    if maximum.is_some_and(|maximum| maximum < needed) {
        bail!(
            "{clients} clients need {needed} open files, but this process may have no more than {}: use fewer \
             --clients, or raise the limit (ulimit -n)",
            maximum.unwrap_or(needed)
        );
    }
    let raised = Rlimit {
        current: Some(needed),
        maximum,
    };
    setrlimit(Resource::Nofile, raised).context("failed to raise the limit of open files")
}
