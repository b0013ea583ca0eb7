//! Handshakes that succeed, and those that are refused.

use leasehold_tests::{Authority, Coordinator, in_words, wait};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::tls::{
    listening::{BOTH, HTTP2, client, hello, soon},
    site::{PATIENCE, Site, ask, list},
};

#[tokio::test]
async fn a_client_that_trusts_the_authority_is_served_without_a_certificate_where_none_is_asked_for()
 {
    let site = Site::open().await;
    site.ask(None).await.unwrap();
    // One that it was not asked for does no harm.
    let client = site.clients.client("somebody").issue();
    site.ask(Some(&client)).await.unwrap();
    site.until_failures(0.0).await;
}

#[tokio::test]
async fn a_coordinator_with_a_certificate_of_another_authority_or_an_expired_one_is_let_go() {
    let site = Site::serving(|servers| servers.server().expired().issue()).await;
    let error = in_words(&site.ask(None).await.unwrap_err());
    assert!(error.contains("Expired"), "{error}");
    site.until_failures(1.0).await;
    let site = Site::open().await;
    let stranger = Authority::new("strangers");
    let error = ask(&stranger, &site.coordinator.endpoint(), None).await;
    let error = in_words(&error.unwrap_err());
    assert!(error.contains("UnknownIssuer"), "{error}");
    site.until_failures(1.0).await;
}

#[tokio::test]
async fn only_a_good_certificate_of_the_clients_authority_opens_the_door() {
    let site = Site::mutual().await;
    let good = site.clients.client("somebody").issue();
    site.ask(Some(&good)).await.unwrap();

    let none = in_words(&site.ask(None).await.unwrap_err());
    assert!(none.contains("CertificateRequired"), "{none}");
    let expired = site.clients.client("somebody").expired().issue();
    let expired = in_words(&site.ask(Some(&expired)).await.unwrap_err());
    assert!(expired.contains("CertificateExpired"), "{expired}");
    let strangers = Authority::new("strangers");
    let stranger = strangers.client("somebody").issue();
    let stranger = in_words(&site.ask(Some(&stranger)).await.unwrap_err());
    assert!(stranger.contains("UnknownCA"), "{stranger}");
    site.until_failures(3.0).await;
}

#[tokio::test]
async fn an_optional_certificate_that_is_shown_must_be_good() {
    let site = Site::asking(|clients| {
        let mut flags = clients.of_clients().to_vec();
        flags.push("--tls-client-auth=optional".to_owned());
        flags
    })
    .await;
    // Let in, and told that it is nobody.
    let nobody = site.ask(None).await.unwrap_err();
    assert_eq!(nobody.code(), tonic::Code::Unauthenticated);
    let good = site.clients.client("somebody").issue();
    site.ask(Some(&good)).await.unwrap();
    let expired = site.clients.client("somebody").expired().issue();
    let expired = in_words(&site.ask(Some(&expired)).await.unwrap_err());
    assert!(expired.contains("CertificateExpired"), "{expired}");
    // A server's certificate is none for a client.
    let server = in_words(
        &site
            .ask(Some(&site.clients.server().issue()))
            .await
            .unwrap_err(),
    );
    assert!(
        server.contains("UnsupportedCertificate") || server.contains("BadCertificate"),
        "{server}"
    );
    site.until_failures(2.0).await;
}

#[tokio::test]
async fn both_versions_are_spoken_and_no_older_one() {
    let site = Site::open().await;
    for version in BOTH {
        let client = client(&site.servers, &[version], &[b"h2"], None);
        let stream = hello(site.address(), client).await.unwrap();
        let (_, session) = stream.get_ref();
        assert_eq!(session.protocol_version(), Some(version.version));
        assert_eq!(session.alpn_protocol(), Some(&b"h2"[..]));
    }
    site.until_failures(0.0).await;

    let mut socket = TcpStream::connect(site.address()).await.unwrap();
    socket.write_all(&hello_of_tls_1_1()).await.unwrap();
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).await.unwrap();
    // A fatal alert: that the handshake fails, or of its version.
    assert_eq!((answer[0], answer[5]), (0x15, 2), "{answer:?}");
    assert!([40, 70].contains(&answer[6]), "{answer:?}");
    site.until_failures(1.0).await;
}

/// Returns a record with the hello of a client that knows TLS 1.1 and nothing newer.
pub(crate) fn hello_of_tls_1_1() -> Vec<u8> {
    let mut hello = vec![3, 2];
    hello.extend([7; 32]);
    // No session to resume; ECDHE and RSA with AES in CBC; no compression.
    hello.extend([0, 0, 4, 0xc0, 0x13, 0, 0x2f, 1, 0]);
    // The curves P-256 and X25519, and uncompressed points.
    hello.extend([0, 16, 0, 10, 0, 6, 0, 4, 0, 23, 0, 29, 0, 11, 0, 2, 1, 0]);
    let length = u8::try_from(hello.len()).unwrap();
    let mut record = vec![0x16, 3, 1, 0, length + 4, 1, 0, 0, length];
    record.extend(hello);
    record
}

#[tokio::test]
async fn http_1_and_2_are_spoken_and_nothing_else() {
    let site = Site::open().await;
    let other = client(&site.servers, BOTH, &[b"http/1.0"], None);
    let error = hello(site.address(), other).await.unwrap_err().to_string();
    assert!(error.contains("NoApplicationProtocol"), "{error}");
    site.until_failures(1.0).await;

    // One that offers nothing is known by its first bytes.
    let request = b"GET /nothing HTTP/1.1\r\nhost: localhost\r\n\r\n";
    for protocols in [&[][..], &[&b"http/1.1"[..]]] {
        let client = client(&site.servers, BOTH, protocols, None);
        let mut stream = hello(site.address(), client).await.unwrap();
        assert_eq!(
            stream.get_ref().1.alpn_protocol(),
            protocols.first().copied()
        );
        stream.write_all(request).await.unwrap();
        stream.flush().await.unwrap();
        let mut answer = [0; 12];
        soon(stream.read_exact(&mut answer)).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 404");
    }
    site.until_failures(1.0).await;
}

#[tokio::test]
async fn plain_text_to_a_tls_port_is_closed_and_told() {
    let site = Site::open().await;
    for said in [&b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"[..], HTTP2] {
        let mut socket = TcpStream::connect(site.address()).await.unwrap();
        socket.write_all(said).await.unwrap();
        let mut answer = Vec::new();
        soon(socket.read_to_end(&mut answer)).await.unwrap();
        assert!(answer.is_empty() || answer[0] == 0x15, "{answer:?}");
    }
    site.until_failures(2.0).await;
    // A gRPC client without TLS likewise.
    let plain = site.coordinator.endpoint().replace("https://", "http://");
    let endpoint = tonic::transport::Endpoint::from_shared(plain).unwrap();
    if let Ok(channel) = endpoint.connect().await {
        list(channel).await.unwrap_err();
    }
    site.until_failures(3.0).await;
    // A connection that says nothing and goes, as that of a health check, is no failure.
    drop(TcpStream::connect(site.address()).await.unwrap());
    site.ask(None).await.unwrap();
    site.until_failures(3.0).await;
}

#[tokio::test]
async fn failures_are_logged_with_their_reason_and_not_each_as_a_warning() {
    let (servers, clients) = (Authority::new("servers"), Authority::new("clients"));
    let coordinator = Coordinator::process()
        .arguments(servers.server().issue().flags())
        .arguments(clients.of_clients())
        .arguments(["--log=debug"])
        .start();
    let endpoint = coordinator.endpoint();
    for _ in 0..3 {
        ask(&servers, &endpoint, None).await.unwrap_err();
    }
    let log = wait::until("three failures to be logged", PATIENCE, || async {
        let log = coordinator.log();
        let told = log.matches("the client has no certificate").count();
        if told == 4 { Ok(log) } else { Err(log) }
    })
    .await;
    let warnings = log
        .lines()
        .filter(|line| line.contains("WARN") && line.contains("TLS handshake failed"));
    assert_eq!(warnings.count(), 1, "{log}");
}
