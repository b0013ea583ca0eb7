//! Port that says whether this process leads, for load balancers: HTTP 200 while it does, 503 otherwise.

use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::Context;
use http_body_util::Full;
use hyper::{
    Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use leasehold_client::LeadershipWatch;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};

use crate::say::say;

/// Time for a caller to send its request.
const PATIENCE: Duration = Duration::from_secs(5);
/// Connections at a time. Further ones wait.
const CONNECTIONS: usize = 64;

/// Leadership that the port tells of. Clones tell of the same one.
#[derive(Clone, Debug, Default)]
pub(super) struct Ready(Arc<Mutex<Option<LeadershipWatch>>>);

impl Ready {
    /// Listens at this address, and answers from now on.
    ///
    /// # Errors
    ///
    /// If the address can't be bound.
    pub(super) async fn listen(&self, address: SocketAddr) -> anyhow::Result<()> {
        let listener = TcpListener::bind(address).await;
        let listener =
            listener.with_context(|| format!("failed to listen on {address} (--ready-listen)"))?;
        let address = listener.local_addr()?;
        say(format_args!(
            "http://{address} says whether this process leads"
        ));
        tokio::spawn(self.clone().accept(listener));
        Ok(())
    }

    /// Tells of this leadership from now on.
    pub(super) fn leads(&self, leadership: LeadershipWatch) {
        *self.lock() = Some(leadership);
    }

    /// Tells from now on that this process does not lead.
    pub(super) fn leads_no_more(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<LeadershipWatch>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether this process leads: a leadership whose deadline has passed, or that is suspended, is none.
    fn is_leading(&self) -> bool {
        let leadership = self.lock();
        leadership.as_ref().is_some_and(LeadershipWatch::is_leader)
    }

    async fn accept(self, listener: TcpListener) {
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let Ok(place) = Arc::clone(&places).acquire_owned().await else {
                return;
            };
            match listener.accept().await {
                Ok((stream, _)) => {
                    let this = self.clone();
                    tokio::spawn(async move {
                        this.serve(stream).await;
                        drop(place);
                    });
                }
                // Such as that there are too many open files: that passes.
                Err(_) => tokio::time::sleep(PATIENCE / 50).await,
            }
        }
    }

    async fn serve(&self, stream: TcpStream) {
        let answer =
            service_fn(|_: Request<Incoming>| async { Ok::<_, Infallible>(self.answer()) });
        // A caller that breaks off has no use for an answer.
        let _ = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(PATIENCE)
            .keep_alive(false)
            .serve_connection(TokioIo::new(stream), answer)
            .await;
    }

    fn answer(&self) -> Response<Full<Bytes>> {
        let (status, body) = match self.is_leading() {
            true => (StatusCode::OK, "leading\n"),
            false => (StatusCode::SERVICE_UNAVAILABLE, "not leading\n"),
        };
        let mut response = Response::new(Full::new(Bytes::from_static(body.as_bytes())));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }
}
