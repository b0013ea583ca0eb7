//! The admin port: metrics for Prometheus and probes for orchestrators, over HTTP/1.1 with or without TLS.

use std::{io, net::SocketAddr, time::Duration};

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, HeaderName, StatusCode, header},
    routing::get,
    serve::Listener,
};
use tokio::{net::TcpListener, sync::watch};
use tokio_util::sync::CancellationToken;

use crate::{
    Liveness,
    telemetry::Metrics,
    tls::{Tls, TlsPort},
};

/// What those who accept it get, as Prometheus does.
const OPEN_METRICS_TYPE: &str = "application/openmetrics-text";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// What everybody else gets.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
/// How long requests in progress get when the coordinator shuts down.
const LAST_REQUESTS: Duration = Duration::from_secs(1);

const INDEX: &str = concat!(
    "Leasehold coordinator ",
    env!("CARGO_PKG_VERSION"),
    "\n\n/metrics  for Prometheus\n/livez    200 while the process works, 503 with the reason when a restart would \
     mend it\n/readyz   200 while it serves locks, 503 \
     with the reason while it does not\n"
);

/// Whether the coordinator serves locks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// Whether it does.
    pub ready: bool,
    /// Why not, for an operator; `ready` or the like if it does.
    pub reason: String,
}

impl Readiness {
    /// It serves.
    #[must_use]
    pub fn ready() -> Self {
        Self {
            ready: true,
            reason: "ready".to_owned(),
        }
    }

    /// It does not, because of `reason`.
    #[must_use]
    pub fn not_ready(reason: impl Into<String>) -> Self {
        Self {
            ready: false,
            reason: reason.into(),
        }
    }
}

/// What the admin port shows.
#[derive(Clone, Debug)]
pub struct AdminState {
    /// Shown at `/metrics`.
    pub metrics: Metrics,
    /// Followed by `/readyz`. When its sender is gone, its last value counts.
    pub readiness: watch::Receiver<Readiness>,
    /// Followed by `/livez`.
    pub liveness: Liveness,
}

/// How the admin port is encrypted.
#[derive(Clone, Debug)]
pub struct AdminTls {
    /// The certificates; clients are asked for none.
    pub tls: Tls,
    /// Time within which a handshake must be done.
    pub handshake_timeout: Duration,
}

/// Serves the admin port, encrypted or not, until `shutdown` is cancelled; requests in progress then get a second.
///
/// # Errors
///
/// When the listening socket fails for good.
pub async fn serve(
    listener: TcpListener,
    tls: Option<AdminTls>,
    state: AdminState,
    shutdown: CancellationToken,
) -> io::Result<()> {
    match tls {
        None => serve_on(listener, state, shutdown).await,
        Some(AdminTls {
            tls,
            handshake_timeout,
        }) => {
            let port = TlsPort::new(listener, tls, handshake_timeout);
            serve_on(port, state, shutdown).await
        }
    }
}

async fn serve_on(
    listener: impl Listener<Addr = SocketAddr>,
    state: AdminState,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let router = Router::new()
        .route("/", get(|| async { INDEX }))
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(state);
    let server = axum::serve(listener, router)
        .with_graceful_shutdown(shutdown.clone().cancelled_owned())
        .into_future();
    tokio::pin!(server);
    tokio::select! {
        biased;
        served = &mut server => return served,
        () = shutdown.cancelled() => {}
    }
    // Somebody who holds a half-sent request open must not hold up the shutdown.
    tokio::time::timeout(LAST_REQUESTS, server)
        .await
        .unwrap_or(Ok(()))
}

async fn livez(State(state): State<AdminState>) -> (StatusCode, String) {
    match state.liveness.check() {
        Ok(()) => (StatusCode::OK, "ok\n".to_owned()),
        Err(complaint) => (StatusCode::SERVICE_UNAVAILABLE, format!("{complaint}\n")),
    }
}

async fn readyz(State(state): State<AdminState>) -> (StatusCode, String) {
    let readiness = state.readiness.borrow().clone();
    let status = if readiness.ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    (status, format!("{}\n", readiness.reason))
}

async fn metrics(
    State(state): State<AdminState>,
    headers: HeaderMap,
) -> ([(HeaderName, &'static str); 1], String) {
    let accepted = headers.get_all(header::ACCEPT);
    let open_metrics = accepted
        .iter()
        .filter_map(|accepted| accepted.to_str().ok())
        .any(|accepted| accepted.contains(OPEN_METRICS_TYPE));
    if open_metrics {
        let content_type = [(header::CONTENT_TYPE, OPEN_METRICS)];
        (content_type, state.metrics.encode())
    } else {
        let content_type = [(header::CONTENT_TYPE, TEXT)];
        (content_type, state.metrics.encode_for_prometheus())
    }
}
