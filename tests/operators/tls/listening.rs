//! The listener by itself, and clients that speak TLS as a test wants it.

use std::{io, net::SocketAddr, path::Path, pin::Pin, sync::Arc, time::Duration};

use futures_util::{Stream, StreamExt};
use leasehold_server::{
    Config, Liveness, Reload,
    config::Action,
    listener::{Connection, Connections, ListenerOptions, accept},
    tls::Tls,
};
use leasehold_tests::{Authority, certificates::Issued};
use rustls::{
    ClientConfig, RootCertStore, SupportedProtocolVersion,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy, sink},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinHandle,
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::tls::site::PATIENCE;

/// An HTTP/2 client's first bytes: the preface and an empty SETTINGS frame.
pub(crate) const HTTP2: &[u8; 33] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// The protocol versions that are spoken.
pub(crate) const BOTH: &[&SupportedProtocolVersion] =
    &[&rustls::version::TLS13, &rustls::version::TLS12];

/// A listener with TLS, and what it accepts.
pub(crate) struct Listening {
    pub(crate) address: SocketAddr,
    pub(crate) connections: Connections,
    incoming: Pin<Box<dyn Stream<Item = io::Result<Connection>> + Send>>,
    _following: DropGuard,
}

impl Listening {
    /// Starts with these flags; only `--handshake-timeout` and those of TLS matter. Never ends silent connections.
    pub(crate) async fn with(flags: &[String]) -> Self {
        let program = "leasehold-server".to_owned();
        let args = [program].into_iter().chain(flags.iter().cloned());
        let config = match Config::from_args(args.map(Into::into), |_| None).unwrap() {
            Action::Serve(config) => *config,
            other => panic!("{flags:?} serves nothing: {other:?}"),
        };
        let mut options = ListenerOptions::from(&config);
        options.max_silence = None;
        let background = CancellationToken::new();
        let tls = Tls::start(&Reload::from(config), &Liveness::default(), &background)
            .unwrap()
            .unwrap();
        options.tls = Some(tls);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let connections = Connections::new();
        Self {
            address: listener.local_addr().unwrap(),
            incoming: Box::pin(accept(
                listener,
                options,
                connections.clone(),
                background.clone(),
            )),
            connections,
            _following: background.drop_guard(),
        }
    }

    /// Returns the next connection that was accepted.
    pub(crate) async fn next(&mut self) -> Connection {
        soon(self.incoming.next()).await.unwrap().unwrap()
    }

    /// Returns a client that has done its handshake, and our end of its connection, read by a task of its own.
    pub(crate) async fn pair(
        &mut self,
        client: Arc<ClientConfig>,
    ) -> (TlsStream<TcpStream>, Served) {
        let address = self.address;
        let dialling = tokio::spawn(async move { hello(address, client).await });
        let served = serve(self.next().await);
        (soon(dialling).await.unwrap().unwrap(), served)
    }
}

/// A connection that is read to its end.
pub(crate) struct Served {
    pub(crate) handle: leasehold_server::listener::ConnectionHandle,
    /// Becomes ready with the first bytes.
    pub(crate) begun: oneshot::Receiver<()>,
    pub(crate) reading: JoinHandle<io::Result<u64>>,
}

/// Serves a connection as HTTP/2 does as long as it is not held up: it reads all that comes,
/// and says goodbye.
pub(crate) fn serve(mut connection: Connection) -> Served {
    let handle = connection.handle().clone();
    let (begin, begun) = oneshot::channel();
    let reading = tokio::spawn(async move {
        let first = connection.read(&mut [0]).await? as u64;
        // Few tests wait for it.
        let _ = begin.send(());
        let read = copy(&mut connection, &mut sink()).await?;
        connection.shutdown().await?;
        Ok(first + read)
    });
    Served {
        handle,
        begun,
        reading,
    }
}

/// Awaits an event that must happen soon.
pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    match timeout(PATIENCE, what).await {
        Ok(value) => value,
        Err(_) => panic!("did not happen in {PATIENCE:?}"),
    }
}

/// Returns a client's settings of TLS: its versions, its protocols for ALPN, and its identity.
pub(crate) fn client(
    trusted: &Authority,
    versions: &[&'static SupportedProtocolVersion],
    protocols: &[&[u8]],
    identity: Option<&Issued>,
) -> Arc<ClientConfig> {
    let certificates = |path: &Path| -> Vec<CertificateDer<'static>> {
        let found = CertificateDer::pem_file_iter(path).unwrap();
        found.map(Result::unwrap).collect()
    };
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates(&trusted.ca()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match identity {
        Some(own) => {
            let key = PrivateKeyDer::from_pem_file(&own.key).unwrap();
            let own = certificates(&own.cert);
            builder.with_client_auth_cert(own, key).unwrap()
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Arc::new(config)
}

/// Returns the settings of an HTTP/2 client without a certificate.
pub(crate) fn plain_client(trusted: &Authority) -> Arc<ClientConfig> {
    client(trusted, BOTH, &[b"h2"], None)
}

/// Makes a TLS handshake, as far as the client can tell.
pub(crate) async fn hello(
    address: SocketAddr,
    client: Arc<ClientConfig>,
) -> io::Result<TlsStream<TcpStream>> {
    let socket = TcpStream::connect(address).await?;
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(client).connect(name, socket).await
}

/// Longest time for a handshake, in the tests of one that stalls.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_millis(300);
