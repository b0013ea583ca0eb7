//! Coordinator with certificates, and its clients.

use std::{net::SocketAddr, time::Duration};

use leasehold_proto::v1::{ListSessionsRequest, admin_service_client::AdminServiceClient};
use leasehold_tests::{Authority, Coordinator, certificates::Issued, wait};
use tonic::{Status, transport::Channel};

/// Longer than anything takes that is waited for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A coordinator in this process, and the authorities around it.
pub(crate) struct Site {
    pub(crate) servers: Authority,
    pub(crate) clients: Authority,
    /// The certificate of the coordinator.
    pub(crate) server: Issued,
    pub(crate) coordinator: Coordinator,
}

impl Site {
    /// Starts a coordinator that asks clients for no certificate.
    pub(crate) async fn open() -> Self {
        Self::with(|servers| servers.server().issue(), |_| Vec::new()).await
    }

    /// Does the same with this certificate.
    pub(crate) async fn serving(certificate: impl FnOnce(&Authority) -> Issued) -> Self {
        Self::with(certificate, |_| Vec::new()).await
    }

    /// Starts a coordinator that asks clients for a certificate.
    pub(crate) async fn mutual() -> Self {
        Self::asking(|clients| clients.of_clients().to_vec()).await
    }

    /// Starts a coordinator with further flags, which name files of the clients' authority.
    pub(crate) async fn asking(flags: impl FnOnce(&Authority) -> Vec<String>) -> Self {
        Self::with(|servers| servers.server().issue(), flags).await
    }

    async fn with(
        certificate: impl FnOnce(&Authority) -> Issued,
        flags: impl FnOnce(&Authority) -> Vec<String>,
    ) -> Self {
        let (servers, clients) = (Authority::new("servers"), Authority::new("clients"));
        let server = certificate(&servers);
        let mut all = server.flags().to_vec();
        all.extend(flags(&clients));
        let coordinator = Coordinator::in_process_with(all);
        coordinator.ready().await;
        Self {
            servers,
            clients,
            server,
            coordinator,
        }
    }

    /// Returns the address at which it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        let endpoint = self.coordinator.endpoint();
        endpoint.trim_start_matches("https://").parse().unwrap()
    }

    /// Returns whether a client gets an answer.
    pub(crate) async fn ask(&self, client: Option<&Issued>) -> Result<(), Status> {
        ask(&self.servers, &self.coordinator.endpoint(), client).await
    }

    /// Waits until as many handshakes have failed.
    pub(crate) async fn until_failures(&self, failures: f64) {
        wait::until("the failure to be counted", PATIENCE, || async {
            let metrics = self.coordinator.metrics().await;
            let counted = metrics.sum("leasehold_connections_tls_failures_total");
            if counted == failures {
                Ok(())
            } else {
                Err(counted)
            }
        })
        .await;
    }
}

/// Returns whether a client gets an answer that trusts an authority.
pub(crate) async fn ask(
    trusted: &Authority,
    endpoint: &str,
    client: Option<&Issued>,
) -> Result<(), Status> {
    let channel = trusted.connect(endpoint, client).await;
    let channel = channel.map_err(|error| Status::from_error(Box::new(error)))?;
    list(channel).await
}

/// Asks something over a connection.
pub(crate) async fn list(channel: Channel) -> Result<(), Status> {
    let mut admin = AdminServiceClient::new(channel);
    admin.list_sessions(ListSessionsRequest::default()).await?;
    Ok(())
}
