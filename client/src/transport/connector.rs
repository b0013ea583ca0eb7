//! Connections that are encrypted before anything is said on them.

use std::{
    error::Error as StdError,
    io,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use hyper_util::{client::legacy::connect::HttpConnector, rt::TokioIo};
use rustls::pki_types::ServerName;
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tonic::{
    ConnectError,
    codegen::{BoxFuture, Service},
    transport::Uri,
};

use super::tls::{HTTP_2, Tls};

type BoxError = Box<dyn StdError + Send + Sync>;

/// Connects by TCP to what the URL names, by TLS to whoever has a certificate of that name.
pub(super) struct Connector {
    tcp: HttpConnector,
    tls: Arc<Tls>,
    server_name: ServerName<'static>,
    /// For all of it.
    limit: Option<Duration>,
}

impl Connector {
    pub(super) fn new(
        tls: Arc<Tls>,
        server_name: ServerName<'static>,
        limit: Option<Duration>,
    ) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        // Shared among all addresses of a name, so that one that is silent leaves time for the others.
        tcp.set_connect_timeout(limit);
        Self {
            tcp,
            tls,
            server_name,
            limit,
        }
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<TlsStream<TcpStream>>;
    // By which it is known that nothing was sent.
    type Error = ConnectError;
    type Future = BoxFuture<Self::Response, ConnectError>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        let ready = self.tcp.poll_ready(cx);
        ready.map_err(|error| ConnectError(error.into()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = self.tcp.call(uri);
        // As the files are now, which is why it is not done once for all connections.
        let tls = TlsConnector::from(self.tls.config());
        let server_name = self.server_name.clone();
        let limit = self.limit;
        Box::pin(async move {
            let connecting = async {
                let tcp = connecting.await?.into_inner();
                let stream = tls.connect(server_name, tcp).await?;
                if stream.get_ref().1.alpn_protocol() != Some(HTTP_2) {
                    let what = "whoever answers there does not speak HTTP/2 over TLS";
                    return Err(io::Error::other(what).into());
                }
                Ok::<_, BoxError>(TokioIo::new(stream))
            };
            let connected = match limit {
                Some(limit) => timeout(limit, connecting)
                    .await
                    .unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into())),
                None => connecting.await,
            };
            connected.map_err(ConnectError)
        })
    }
}
