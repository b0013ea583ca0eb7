//! The sockets, and what can go wrong before and while they are served.

use std::{io, net::SocketAddr, time::Duration};

use leasehold_store::StoreUrlError;
use thiserror::Error;
use tokio::net::TcpListener;

use crate::{access::AccessError, config::Config, telemetry::TracesError, tls::TlsError};

/// The sockets that a coordinator serves.
#[derive(Debug)]
pub struct Listeners {
    /// For gRPC.
    pub grpc: TcpListener,
    /// For the admin HTTP port.
    pub admin: TcpListener,
}

/// Why a coordinator could not start or go on.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RunError {
    /// A port could not be had.
    #[error(
        "failed to listen on {address} ({setting}): {source}; choose another port with --{setting}, or 0 for any free one"
    )]
    Bind {
        /// The setting that names it.
        setting: &'static str,
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The certificate files make no sense.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// What callers show who they are by can't be read.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The store's URL makes no sense.
    #[error("failed to open the store (--store): {0}")]
    Store(#[from] StoreUrlError),
    /// The store is out of reach, and is required.
    #[error(
        "the store was not reached within {within:?} (--require-store): {reason}; without --require-store the coordinator starts all the same, and goes on trying"
    )]
    StoreUnreachable {
        /// How long it was tried.
        within: Duration,
        /// Why it can't be reached.
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

impl Listeners {
    /// Binds what the configuration says; port 0 picks a free one.
    pub async fn bind(config: &Config) -> Result<Self, RunError> {
        let bind = async |setting, address| {
            TcpListener::bind(address)
                .await
                .map_err(|source| RunError::Bind {
                    setting,
                    address,
                    source,
                })
        };
        Ok(Self {
            grpc: bind("listen", config.listen).await?,
            admin: bind("admin-listen", config.admin_listen).await?,
        })
    }
}
