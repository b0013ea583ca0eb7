//! Connections to coordinators, encrypted where the URL says so.

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

use super::{
    stream::Stream,
    tls::{HTTP_2, Tls},
    verdict::Verdict,
};
use crate::error::Mismatch;

type BoxError = Box<dyn StdError + Send + Sync>;

/// Connects by TCP to the address in the URL, and if the URL asks for encryption, by TLS to a server with a certificate of its
/// name.
pub(super) struct Connector {
    tcp: HttpConnector,
    /// `None` if nothing is encrypted.
    tls: Option<(Arc<Tls>, ServerName<'static>)>,
    /// Time limit for the whole connect.
    limit: Option<Duration>,
    /// Verdict on the newest connection.
    verdict: Verdict,
}

impl Connector {
    pub(super) fn new(
        tls: Option<(Arc<Tls>, ServerName<'static>)>,
        limit: Option<Duration>,
        verdict: Verdict,
    ) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        // Shared among all addresses of a name, so that one that is silent leaves time for the others.
        tcp.set_connect_timeout(limit);
        Self {
            tcp,
            tls,
            limit,
            verdict,
        }
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Stream>;
    // By which it is known that nothing was sent.
    type Error = ConnectError;
    type Future = BoxFuture<Self::Response, ConnectError>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        let ready = self.tcp.poll_ready(cx);
        ready.map_err(|error| ConnectError(error.into()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = self.tcp.call(uri);
        // With the files as they are now, so that each connection is made with the newest.
        let tls = self
            .tls
            .as_ref()
            .map(|(tls, name)| (TlsConnector::from(tls.config()), name.clone()));
        let limit = self.limit;
        let verdict = self.verdict.clone();
        verdict.begin();
        Box::pin(async move {
            let connecting = async {
                let tcp = connecting.await?.into_inner();
                let peer = tcp.peer_addr().ok();
                let stream = match tls {
                    Some((tls, name)) => {
                        Stream::new(encrypt(&tls, name, tcp).await?, false, None, verdict)
                    }
                    None => Stream::new(tcp, true, peer, verdict),
                };
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

/// Makes the TLS handshake. Fails with a [`Mismatch`] if what answers does not speak TLS, or no HTTP/2 inside.
async fn encrypt(
    tls: &TlsConnector,
    name: ServerName<'static>,
    tcp: TcpStream,
) -> io::Result<TlsStream<TcpStream>> {
    let stream = tls.connect(name, tcp).await.map_err(|error| {
        let cause = error.get_ref();
        match cause.and_then(|cause| cause.downcast_ref()) {
            Some(rustls::Error::InvalidMessage(_)) => Mismatch::NoTls.error(),
            _ => error,
        }
    })?;
    if stream.get_ref().1.alpn_protocol() != Some(HTTP_2) {
        return Err(Mismatch::NoHttp2.error());
    }
    Ok(stream)
}
