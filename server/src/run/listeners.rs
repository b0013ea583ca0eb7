//! Sockets of the coordinator, and the errors that keep it from starting or going on.

use std::net::SocketAddr;

use thiserror::Error;
use tokio::net::TcpListener;

use crate::config::Config;

/// Sockets that a coordinator serves.
#[derive(Debug)]
pub struct Listeners {
    /// Listener for gRPC.
    pub grpc: TcpListener,
    /// Listener for the admin HTTP port.
    pub admin: TcpListener,
}

/// Error that keeps a coordinator from starting or going on. Its text is for the operator, and may have several lines.
#[derive(Debug, Error)]
pub enum RunError {
    /// The settings, or the files that they name, are wrong, so that another start with the same ones would fail too.
    #[error("{0}")]
    Configuration(String),
    /// Something else failed.
    #[error("{0}")]
    Failed(String),
}

impl Listeners {
    /// Binds the configured addresses; port 0 picks a free port.
    ///
    /// # Errors
    ///
    /// If an address can't be bound: has a line for each of these.
    pub async fn bind(config: &Config) -> Result<Self, RunError> {
        let grpc = bind("listen", config.listen).await;
        let admin = bind("admin-listen", config.admin_listen).await;
        match (grpc, admin) {
            (Ok(grpc), Ok(admin)) => Ok(Self { grpc, admin }),
            (grpc, admin) => {
                let errors = [grpc.err(), admin.err()].into_iter().flatten();
                Err(RunError::Failed(errors.collect::<Vec<_>>().join("\n")))
            }
        }
    }
}

async fn bind(setting: &str, address: SocketAddr) -> Result<TcpListener, String> {
    TcpListener::bind(address).await.map_err(|error| {
        format!(
            "failed to listen on {address} ({setting}): {error}; choose another port with --{setting}, or 0 for any free one"
        )
    })
}
