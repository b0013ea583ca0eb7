//! Sockets of the coordinator, and their errors before and while they are served.

use std::{io, net::SocketAddr, time::Duration};

use leasehold_store::StoreUrlError;
use thiserror::Error;
use tokio::net::TcpListener;

use crate::{access::AccessError, config::Config, telemetry::TracesError, tls::TlsError};

/// Sockets that a coordinator serves.
#[derive(Debug)]
pub struct Listeners {
    /// Listener for gRPC.
    pub grpc: TcpListener,
    /// Listener for the admin HTTP port.
    pub admin: TcpListener,
}

/// Error that keeps a coordinator from starting or going on.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RunError {
    /// The coordinator can't listen on each of these addresses. The text has a line for each.
    #[error("{}", lines(.0))]
    Bind(Vec<BindError>),
    /// The coordinator can't announce its addresses.
    #[error("failed to print where the coordinator listens: {0}")]
    Announce(io::Error),
    /// The certificate files are not valid.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The files of callers' identities can't be read.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The store's URL is not valid.
    #[error("failed to open the store (--store): {0}")]
    Store(#[from] StoreUrlError),
    /// The store is out of reach, and is required.
    #[error(
        "the store was not reached within {within:?} (--require-store): {reason}; without --require-store the coordinator starts without it, and goes on trying"
    )]
    StoreUnreachable {
        /// Time for which the coordinator tried.
        within: Duration,
        /// The reason for which it could not reach the store.
        reason: String,
    },
    /// Traces could not be set up.
    #[error(transparent)]
    Traces(#[from] TracesError),
    /// Reflection could not be built.
    #[error("failed to set up gRPC reflection: {0}")]
    Reflection(#[from] tonic_reflection::server::Error),
    /// The gRPC server failed.
    #[error("failed to serve gRPC: {0}")]
    Serve(#[from] tonic::transport::Error),
}

/// Error of listening on an address.
#[derive(Debug, Error)]
#[error(
    "failed to listen on {address} ({setting}): {source}; choose another port with --{setting}, or 0 for any free one"
)]
pub struct BindError {
    /// The setting that names it.
    pub setting: &'static str,
    /// The address.
    pub address: SocketAddr,
    /// The system's error.
    pub source: io::Error,
}

fn lines(errors: &[BindError]) -> String {
    let lines: Vec<_> = errors.iter().map(BindError::to_string).collect();
    lines.join("\n")
}

impl RunError {
    /// Returns whether the settings, or the files that they name, are wrong, so that another start with the same ones would
    /// fail too.
    #[must_use]
    pub const fn is_configuration(&self) -> bool {
        matches!(
            self,
            Self::Tls(_) | Self::Access(_) | Self::Store(_) | Self::Traces(_)
        )
    }
}

impl Listeners {
    /// Binds the configured addresses; port 0 picks a free port.
    ///
    /// # Errors
    ///
    /// If an address can't be bound: names each of these.
    pub async fn bind(config: &Config) -> Result<Self, RunError> {
        let bind = async |setting, address| {
            let bound = TcpListener::bind(address).await;
            bound.map_err(|source| BindError {
                setting,
                address,
                source,
            })
        };
        let grpc = bind("listen", config.listen).await;
        let admin = bind("admin-listen", config.admin_listen).await;
        match (grpc, admin) {
            (Ok(grpc), Ok(admin)) => Ok(Self { grpc, admin }),
            (grpc, admin) => {
                let errors = [grpc.err(), admin.err()];
                Err(RunError::Bind(errors.into_iter().flatten().collect()))
            }
        }
    }
}
