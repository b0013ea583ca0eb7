//! The admin port: metrics for Prometheus, probes for orchestrators, the description of the API and the live page, over HTTP/1.1 with or
//! without TLS.

use std::{net::SocketAddr, pin::pin, time::Duration};

use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderMap, HeaderName, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Redirect, Response},
    routing::get,
    serve::Listener,
};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::{either::Either, sync::CancellationToken};

use crate::{
    Liveness, Reload,
    page::{self, Page},
    telemetry::Metrics,
    tls::{Tls, told},
};

/// Connections at the same time: this port is for a few probes and scrapers.
const CONNECTIONS: usize = 256;
/// Longest life of a connection. A client that does not read its responses takes no place for longer.
const LIFE: Duration = Duration::from_secs(120);

/// Content type for clients that accept it, such as Prometheus.
const OPEN_METRICS_TYPE: &str = "application/openmetrics-text";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Content type for all other clients.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
/// Time for requests in progress when the coordinator shuts down, or when their connection has reached its longest life.
const LAST_REQUESTS: Duration = Duration::from_secs(1);

const INDEX: &str = concat!(
    "Leasehold coordinator ",
    env!("CARGO_PKG_VERSION"),
    "\n\n/page/    the live page, for browsers, unless it is off\n/metrics  for Prometheus\n/livez    200 while the \
     process works, 503 with the reason when a restart would mend it\n/readyz   200 while it serves locks, 503 \
     with the reason while it does not\n/openapi.json  the API over HTTP, as OpenAPI 3.1\n"
);

/// Answer to a browser that called a name which could be anybody's.
const DOUBTFUL: &str = "Without TLS, browsers reach this port by an IP address, by localhost, or by a host of cors-origins or \
    page-coordinators: any other name could have been pointed here by a web page.\n";

/// Description of the API; the suite `connect` checks that it is that of the proto files.
const OPENAPI: &str = include_str!("../openapi.json");

/// Readiness of the coordinator to serve locks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// Whether it does.
    pub ready: bool,
    /// Why not, for an operator; if it does, what its store refuses, or nothing.
    pub reason: String,
}

impl Readiness {
    /// Returns the state of a coordinator that serves.
    #[must_use]
    pub fn ready() -> Self {
        Self {
            ready: true,
            reason: String::new(),
        }
    }

    /// Returns the state of a coordinator that serves what its store does not refuse.
    #[must_use]
    pub fn ready_although(refused: impl Into<String>) -> Self {
        Self {
            ready: true,
            reason: refused.into(),
        }
    }

    /// Returns the state of a coordinator that does not serve, because of `reason`.
    #[must_use]
    pub fn not_ready(reason: impl Into<String>) -> Self {
        Self {
            ready: false,
            reason: reason.into(),
        }
    }
}

/// State that the admin port shows.
#[derive(Clone, Debug)]
pub struct AdminState {
    /// Shown at `/metrics`.
    pub metrics: Metrics,
    /// Followed by `/readyz`. When its sender is gone, its last value counts.
    pub readiness: watch::Receiver<Readiness>,
    /// Followed by `/livez`.
    pub liveness: Liveness,
    /// Names the hosts by which browsers may call without TLS.
    pub reload: Reload,
}

/// Serves the admin port, encrypted or not, until `shutdown` is cancelled; requests in progress then get a second. What a client
/// has to do before it is served, it has `patience` for: the handshake, and each request.
pub async fn serve(
    mut listener: TcpListener,
    tls: Option<Tls>,
    patience: Duration,
    state: AdminState,
    page: Option<Page>,
    shutdown: CancellationToken,
) {
    let has_page = page.is_some();
    let reload = state.reload.clone();
    let router = Router::new()
        .route("/", get(move |headers| index(headers, has_page)))
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route("/openapi.json", get(openapi))
        .with_state(state)
        .merge(page.map(Page::routes).unwrap_or_default());
    // By a name without a certificate, nobody gets through a handshake.
    let router = match tls {
        Some(_) => router,
        None => router.layer(middleware::from_fn_with_state(reload, check_host)),
    };
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            Some(_) = connections.join_next() => {}
            // Logs failures to accept, and pauses after them.
            (socket, peer) = Listener::accept(&mut listener) => {
                if connections.len() >= CONNECTIONS {
                    tracing::debug!(%peer, "a connection to the admin port was closed: {CONNECTIONS} are open");
                    continue;
                }
                let serving = serve_one(socket, peer, tls.clone(), router.clone(), patience, shutdown.clone());
                connections.spawn(serving);
            }
        }
    }
    drop(listener);
    // Somebody who holds a half-sent request open must not hold up the shutdown.
    let last = async { while connections.join_next().await.is_some() {} };
    let _ = timeout(LAST_REQUESTS, last).await;
}

/// Serves one connection until its end, its longest life, or the shutdown, which gives a request in progress a second.
async fn serve_one(
    socket: TcpStream,
    peer: SocketAddr,
    tls: Option<Tls>,
    router: Router,
    patience: Duration,
    shutdown: CancellationToken,
) {
    let stream = match tls {
        None => Either::Left(socket),
        // A client whose handshake is not complete has no request in progress.
        Some(tls) => match shutdown
            .run_until_cancelled(encrypt(socket, peer, &tls, patience))
            .await
        {
            Some(Some(stream)) => Either::Right(stream),
            _ => return,
        },
    };
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(patience)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut served = pin!(served);
    tokio::select! {
        _ = &mut served => return,
        () = sleep(LIFE) => {}
        () = shutdown.cancelled() => {}
    }
    served.as_mut().graceful_shutdown();
    let _ = timeout(LAST_REQUESTS, served).await;
}

/// Completes the TLS handshake of a connection, or logs why it failed.
async fn encrypt(
    socket: TcpStream,
    peer: SocketAddr,
    tls: &Tls,
    patience: Duration,
) -> Option<TlsStream<TcpStream>> {
    match timeout(patience, TlsAcceptor::from(tls.admin()).accept(socket)).await {
        Ok(Ok(stream)) => return Some(stream),
        Ok(Err(error)) => {
            let reason = told(&error).unwrap_or_else(|| error.to_string().into());
            tracing::debug!(%peer, %reason, "a TLS handshake failed on the admin port");
        }
        Err(_) => tracing::debug!(%peer, "a TLS handshake on the admin port took too long"),
    }
    None
}

/// Refuses what a page could read whose name was pointed here after it was loaded.
async fn check_host(State(reload): State<Reload>, request: Request, next: Next) -> Response {
    let (head, body) = request.into_parts();
    if page::is_doubtful(&head, &reload.current()) {
        return (StatusCode::FORBIDDEN, DOUBTFUL).into_response();
    }
    next.run(Request::from_parts(head, body)).await
}

/// Leads browsers to the page, and tells others what there is.
async fn index(headers: HeaderMap, has_page: bool) -> Response {
    if has_page && accepts(&headers, "text/html") {
        Redirect::temporary(page::PATH).into_response()
    } else {
        INDEX.into_response()
    }
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
    let body = match (readiness.ready, readiness.reason) {
        (true, refused) if refused.is_empty() => "ready\n".to_owned(),
        (true, refused) => format!("ready, although {refused}\n"),
        (false, reason) => format!("{reason}\n"),
    };
    (status, body)
}

async fn metrics(
    State(state): State<AdminState>,
    headers: HeaderMap,
) -> ([(HeaderName, &'static str); 1], String) {
    if accepts(&headers, OPEN_METRICS_TYPE) {
        let content_type = [(header::CONTENT_TYPE, OPEN_METRICS)];
        (content_type, state.metrics.encode())
    } else {
        let content_type = [(header::CONTENT_TYPE, TEXT)];
        (content_type, state.metrics.encode_for_prometheus())
    }
}

/// Returns whether the client says that it accepts a content type.
fn accepts(headers: &HeaderMap, content_type: &str) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter();
    let mut accepted = accepted.filter_map(|accepted| accepted.to_str().ok());
    accepted.any(|accepted| accepted.contains(content_type))
}

/// Another version of the coordinator may serve another document.
async fn openapi() -> ([(HeaderName, &'static str); 2], &'static str) {
    let headers = [
        (header::CONTENT_TYPE, "application/json"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, OPENAPI)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use rcgen::{CertificateParams, KeyPair};

    use super::*;
    use crate::Config;

    #[tokio::test]
    async fn a_shutdown_ends_a_handshake_that_hangs() {
        let folder = tempfile::tempdir().unwrap();
        let (cert, key) = (folder.path().join("cert"), folder.path().join("key"));
        let pair = KeyPair::generate().unwrap();
        let certificate = CertificateParams::default().self_signed(&pair).unwrap();
        std::fs::write(&cert, certificate.pem()).unwrap();
        std::fs::write(&key, pair.serialize_pem()).unwrap();
        let config = Config {
            tls_cert: Some(cert),
            tls_key: Some(key),
            ..Config::default()
        };
        let shutdown = CancellationToken::new();
        let tls = Tls::start(&Reload::from(config), &Liveness::default(), &shutdown).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        // It sends nothing.
        let _client = TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        let (socket, peer) = TcpListener::accept(&listener).await.unwrap();
        let serving = serve_one(socket, peer, tls, Router::new(), LIFE, shutdown.clone());
        let mut serving = pin!(serving);
        assert_eq!(serving.as_mut().now_or_never(), None, "the handshake hangs");
        shutdown.cancel();
        assert_eq!(serving.now_or_never(), Some(()));
    }
}
