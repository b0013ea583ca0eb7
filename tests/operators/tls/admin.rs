//! Admin port with TLS: the clients that may read metrics, and those that may not.

use std::{io, net::SocketAddr, sync::Arc};

use leasehold_tests::{
    Authority, Coordinator, CoordinatorProcess, certificates, certificates::Issued, wait,
};
use rustls::ClientConfig;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
};

use crate::tls::{
    handshakes::hello_of_tls_1_1,
    listening::{BOTH, HTTP2, client, hello, soon},
    site::PATIENCE,
};

const HTTP1: &[&[u8]] = &[b"http/1.1"];
/// More connections than may do their handshake at the same time.
const MANY: usize = 80;

struct Site {
    servers: Authority,
    server: Issued,
    coordinator: CoordinatorProcess,
    clients: Authority,
}

impl Site {
    /// Returns a coordinator that asks the clients of its other port for certificates.
    fn start(flags: &[&str]) -> Self {
        let (servers, clients) = (Authority::new("servers"), Authority::new("clients"));
        let server = servers.server().issue();
        let coordinator = Coordinator::process()
            .arguments(server.flags())
            .arguments(clients.of_clients())
            .arguments(["--admin-tls", "--log=debug"])
            .arguments(flags.iter().copied())
            .start();
        Self {
            servers,
            server,
            coordinator,
            clients,
        }
    }

    fn address(&self) -> SocketAddr {
        let endpoint = self.coordinator.admin_endpoint();
        endpoint.trim_start_matches("https://").parse().unwrap()
    }

    /// Returns the settings of a client that trusts an authority and speaks HTTP/1.1.
    fn trusting(authority: &Authority) -> Arc<ClientConfig> {
        client(authority, BOTH, HTTP1, None)
    }

    /// Returns the answer to a client that requests `path`.
    async fn get(&self, client: Arc<ClientConfig>, path: &str) -> io::Result<String> {
        let mut stream = soon(hello(self.address(), client)).await?;
        soon(ask(&mut stream, path)).await
    }
}

/// Asks on a connection that stays open, and reads the answer.
async fn ask(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), path: &str) -> io::Result<String> {
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    stream.flush().await?;
    let mut answer = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&answer).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "));
            if length.is_some_and(|length| body.len() >= length.parse().unwrap()) {
                return Ok(text);
            }
        }
        let mut part = [0; 4096];
        match stream.read(&mut part).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            length => answer.extend_from_slice(&part[..length]),
        }
    }
}

#[tokio::test]
async fn metrics_and_probes_are_for_whoever_trusts_it_and_nobody_is_asked_for_a_certificate() {
    let site = Site::start(&[]);
    let ready = "\nleasehold_ready 1\n";
    for version in BOTH {
        let client = client(&site.servers, &[version], HTTP1, None);
        let stream = hello(site.address(), Arc::clone(&client)).await.unwrap();
        let (_, session) = stream.get_ref();
        assert_eq!(session.protocol_version(), Some(version.version));
        assert_eq!(session.alpn_protocol(), Some(HTTP1[0]));
        let metrics = site.get(client, "/metrics").await.unwrap();
        assert!(metrics.starts_with("HTTP/1.1 200 ") && metrics.contains(ready));
    }
    // A scraper that offers nothing by ALPN is served, one with a certificate too.
    let nothing = client(&site.servers, BOTH, &[], None);
    let livez = site.get(nothing, "/livez").await.unwrap();
    assert!(livez.starts_with("HTTP/1.1 200 "), "{livez}");
    let known = site.clients.client("prometheus").issue();
    let known = client(&site.servers, BOTH, HTTP1, Some(&known));
    let readyz = site.get(known, "/readyz").await.unwrap();
    assert!(readyz.ends_with("\r\n\r\nready\n"), "{readyz}");
    let metrics = Site::trusting(&site.servers);
    let metrics = site.get(metrics, "/metrics").await.unwrap();
    let expiry = "leasehold_tls_certificate_expiry_timestamp_seconds{purpose=\"admin\"} ";
    assert!(metrics.contains(expiry), "{metrics}");
}

#[tokio::test]
async fn nobody_else_gets_anywhere() {
    let site = Site::start(&[]);
    let strangers = Authority::new("strangers");
    let stranger = site.get(Site::trusting(&strangers), "/metrics").await;
    let stranger = stranger.unwrap_err().to_string();
    assert!(stranger.contains("UnknownIssuer"), "{stranger}");
    let http2 = client(&site.servers, BOTH, &[b"h2"], None);
    let http2 = site.get(http2, "/metrics").await.unwrap_err().to_string();
    assert!(http2.contains("NoApplicationProtocol"), "{http2}");

    // TLS 1.1 gets a fatal alert; plain text, of either kind, that or nothing.
    let old = hello_of_tls_1_1();
    let plain = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for said in [&old[..], &plain[..], HTTP2] {
        let mut socket = TcpStream::connect(site.address()).await.unwrap();
        socket.write_all(said).await.unwrap();
        let mut answer = Vec::new();
        // What was not read of it may have the connection reset.
        let _ = soon(socket.read_to_end(&mut answer)).await;
        assert!(answer.is_empty() || answer[0] == 0x15, "{answer:?}");
        if said == old {
            assert_eq!(answer[5], 2, "{answer:?}");
            assert!([40, 70].contains(&answer[6]), "{answer:?}");
        }
    }
    let told = "a TLS handshake failed on the admin port";
    wait::until("each failure to be logged", PATIENCE, || async {
        let log = site.coordinator.log();
        let count = log.matches(told).count();
        if count == 5 {
            Ok(())
        } else {
            Err((count, log))
        }
    })
    .await;
    let good = Site::trusting(&site.servers);
    site.get(good, "/readyz").await.unwrap();
}

#[tokio::test]
async fn its_certificate_is_swapped_without_a_word_to_those_who_are_there() {
    // A connection on which nothing is asked is kept for this long.
    let site = Site::start(&["--handshake-timeout=1m"]);
    let before = Site::trusting(&site.servers);
    let mut there = hello(site.address(), Arc::clone(&before)).await.unwrap();
    ask(&mut there, "/readyz").await.unwrap();
    let successors = Authority::new("successors");
    let next = successors.server().issue();
    site.server.replace_with(&next);
    let after = Site::trusting(&successors);
    wait::until("the new certificate to be served", PATIENCE, || {
        site.get(Arc::clone(&after), "/readyz")
    })
    .await;
    let old = site.get(before, "/readyz").await.unwrap_err().to_string();
    assert!(old.contains("UnknownIssuer"), "{old}");
    ask(&mut there, "/metrics").await.unwrap();
    // What makes no sense leaves it as it is.
    certificates::replace(&site.server.key, "no key");
    let refused = "failed to take changed certificates over";
    site.coordinator.logged(&[refused]).await;
    site.get(after, "/readyz").await.unwrap();
}

#[tokio::test]
async fn silent_clients_keep_no_other_waiting_for_long() {
    let site = Site::start(&["--handshake-timeout=500ms"]);
    let mut silent = Vec::new();
    for _ in 0..MANY {
        silent.push(TcpStream::connect(site.address()).await.unwrap());
    }
    let good = Site::trusting(&site.servers);
    site.get(good, "/readyz").await.unwrap();
    for mut socket in silent {
        let mut answer = Vec::new();
        let _ = soon(socket.read_to_end(&mut answer)).await;
        assert!(answer.is_empty(), "{answer:?}");
    }
}
