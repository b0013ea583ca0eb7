//! Trust in the coordinator, the client's certificate, and callers that are refused.

use std::fs;

use leasehold_client::{
    AcquireError, Client, ClientBuilder, ConnectError, LockWatchEvent, LostReason,
};
use leasehold_server::access::tokens::new_token;
use leasehold_tests::{
    Authority, Coordinator, FaultProxy,
    certificates::{Issued, replace},
    in_words,
    proxy::Cut,
    wait,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    time::timeout,
};

use crate::LIMIT;

/// Returns a coordinator that serves with this certificate, and is ready.
async fn serving(certificate: &Issued, clients: Option<&Authority>) -> Coordinator {
    let mut flags = certificate.flags().to_vec();
    flags.extend(clients.into_iter().flat_map(Authority::of_clients));
    let coordinator = Coordinator::in_process_with(flags);
    coordinator.ready().await;
    coordinator
}

fn trusting(authority: &Authority) -> ClientBuilder {
    Client::builder().tls_ca(authority.ca())
}

/// Returns the endpoint with the name of the server instead of its address.
fn by_name(coordinator: &Coordinator) -> String {
    let endpoint = coordinator.endpoint();
    let (_, port) = endpoint.rsplit_once(':').unwrap();
    format!("https://localhost:{port}")
}

#[tokio::test]
async fn sessions_calls_and_feeds_are_encrypted() {
    let servers = Authority::new("servers");
    let coordinator = serving(&servers.server().issue(), None).await;
    let client = trusting(&servers).connect(coordinator.endpoint()).await;
    let client = client.unwrap();
    let guard = client.lock("a").await.unwrap();
    assert_eq!(client.admin().list_locks("").await.unwrap().len(), 1);
    let mut watcher = client.admin().watch_locks("");
    let news = timeout(LIMIT, watcher.next()).await.unwrap();
    assert!(
        matches!(news, Some(Ok(LockWatchEvent::Lock(_)))),
        "{news:?}"
    );
    guard.release().await.unwrap();
    client.close().await;

    // Nor does it work without, whoever is told to try.
    let plain = coordinator.endpoint().replace("https", "http");
    let error = Client::connect(plain).await.unwrap_err();
    assert!(matches!(error, ConnectError::Mismatch { .. }), "{error:?}");
    assert!(!error.is_retryable());
}

#[tokio::test]
async fn the_end_of_an_encrypted_connection_is_known_at_once() {
    let servers = Authority::new("servers");
    let coordinator = serving(&servers.server().issue(), None).await;
    for cut in [Cut::Fin, Cut::Rst] {
        let proxy = FaultProxy::before(&coordinator.endpoint().replace("https", "http")).await;
        let endpoint = proxy.endpoint().replace("http", "https");
        let client = trusting(&servers).connect(endpoint).await.unwrap();
        let guard = client.lock("a").await.unwrap();
        proxy.cut(cut).await;
        // Not at its deadline.
        assert_eq!(guard.lost().await, LostReason::SessionEnded, "{cut:?}");
    }
}

#[tokio::test]
async fn only_a_coordinator_of_a_trusted_authority_is_talked_to() {
    let (servers, others) = (Authority::new("servers"), Authority::new("servers"));
    let coordinator = serving(&servers.server().issue(), None).await;
    // The system's do not certify this one either.
    for builder in [trusting(&others), Client::builder()] {
        let error = builder.clone().connect(coordinator.endpoint()).await;
        let error = error.unwrap_err();
        // A system may have none at all.
        let is_of_trust = matches!(
            error,
            ConnectError::Tls { .. } | ConnectError::Credentials(_)
        );
        assert!(is_of_trust && !error.is_retryable(), "{error:?}");
    }
    let error = trusting(&others).connect(coordinator.endpoint()).await;
    let words = in_words(&error.unwrap_err());
    assert!(words.contains("certificate"), "{words}");
    let admin = trusting(&others).admin(coordinator.endpoint()).unwrap();
    let error = admin.list_locks("").await.unwrap_err();
    assert!(in_words(&error).contains("certificate"), "{error:?}");

    let expired = serving(&servers.server().expired().issue(), None).await;
    let error = trusting(&servers).connect(expired.endpoint()).await;
    let words = in_words(&error.unwrap_err());
    assert!(words.contains("expired"), "{words}");
}

#[tokio::test]
async fn the_name_in_the_url_is_verified_and_not_the_address() {
    let servers = Authority::new("servers");
    let certificate = servers.server_for(&["localhost"]).issue();
    let coordinator = serving(&certificate, None).await;
    // Sessions dial the address, calls the name.
    let client = trusting(&servers).connect(by_name(&coordinator)).await;
    let client = client.unwrap();
    client.admin().list_locks("").await.unwrap();
    let error = trusting(&servers).connect(coordinator.endpoint()).await;
    let error = error.unwrap_err();
    assert!(matches!(error, ConnectError::Tls { .. }), "{error:?}");

    // Unless another one is named.
    let named = |name: &str| trusting(&servers).tls_server_name(name);
    let client = named("localhost").connect(coordinator.endpoint()).await;
    client.unwrap().admin().list_locks("").await.unwrap();
    let error = named("elsewhere").connect(by_name(&coordinator)).await;
    let error = error.unwrap_err();
    assert!(matches!(error, ConnectError::Tls { .. }), "{error:?}");
}

#[tokio::test]
async fn a_client_comes_with_its_certificate() {
    let (servers, clients) = (Authority::new("servers"), Authority::new("clients"));
    let coordinator = serving(&servers.server().issue(), Some(&clients)).await;
    let endpoint = coordinator.endpoint();
    let known = clients.client("billing").issue();
    let stranger = servers.client("billing").issue();
    let with = |issued: &Issued| trusting(&servers).tls_identity(&issued.cert, &issued.key);
    let client = with(&known).connect(endpoint.as_str()).await.unwrap();
    client.admin().list_locks("").await.unwrap();
    for (builder, says) in [
        (trusting(&servers), "CertificateRequired"),
        (with(&stranger), "UnknownCA"),
        (
            with(&clients.client("billing").expired().issue()),
            "CertificateExpired",
        ),
    ] {
        let admin = builder.clone().admin(endpoint.as_str()).unwrap();
        let error = builder.connect(endpoint.as_str()).await.unwrap_err();
        let words = in_words(&error);
        assert!(words.contains(says), "{says}: {words}");
        assert!(matches!(error, ConnectError::Tls { .. }), "{error:?}");
        let words = in_words(&admin.list_locks("").await.unwrap_err());
        assert!(words.contains(says), "{says}: {words}");
    }
}

#[tokio::test]
async fn calls_and_feeds_come_with_the_certificate_as_it_is_then() {
    let (servers, clients) = (Authority::new("servers"), Authority::new("clients"));
    let coordinator = serving(&servers.server().issue(), Some(&clients)).await;
    let certificate = clients.client("billing").issue();
    let builder = trusting(&servers).tls_identity(&certificate.cert, &certificate.key);
    let admin = builder.admin(coordinator.endpoint()).unwrap();
    let mut watcher = admin.watch_locks("");
    let ready = timeout(LIMIT, watcher.next()).await.unwrap().unwrap();
    assert!(matches!(ready, Ok(LockWatchEvent::Ready)), "{ready:?}");

    // In the order in which nobody is refused: both authorities, the new certificate, the new authority alone.
    let successors = Authority::new("clients");
    let (old, new) = (clients.ca(), successors.ca());
    let text = |path| fs::read_to_string(path).unwrap();
    replace(
        &clients.ca(),
        &format!("{}{}", text(old), text(new.clone())),
    );
    let next = successors.client("billing").issue();
    let known = || successors_are_known(&servers, &coordinator, &next);
    wait::until("both authorities to count", LIMIT, known).await;
    certificate.replace_with(&next);
    replace(&clients.ca(), &text(new));
    // The former certificate is worth nothing any more: the stream ends, and comes again with the new one.
    let end = timeout(LIMIT, watcher.next()).await.unwrap().unwrap();
    assert!(matches!(end, Ok(LockWatchEvent::Gap(_))), "{end:?}");
    let ready = timeout(LIMIT, watcher.next()).await.unwrap().unwrap();
    assert!(matches!(ready, Ok(LockWatchEvent::Ready)), "{ready:?}");
    admin.list_locks("").await.unwrap();
}

async fn successors_are_known(
    servers: &Authority,
    coordinator: &Coordinator,
    next: &Issued,
) -> Result<(), String> {
    let builder = trusting(servers).tls_identity(&next.cert, &next.key);
    let admin = builder.admin(coordinator.endpoint()).unwrap();
    let listed = admin.list_locks("").await;
    listed.map(drop).map_err(|error| error.to_string())
}

#[tokio::test]
async fn unusable_files_are_reported_before_anything_is_dialled() {
    let servers = Authority::new("servers");
    let (one, other) = (servers.server().issue(), servers.server().issue());
    let missing = servers.directory().join("missing.pem");
    for (builder, says) in [
        (Client::builder().tls_ca(&missing), "could not read"),
        (Client::builder().tls_ca(&one.key), "no certificate"),
        (
            trusting(&servers).tls_identity(&one.cert, &other.key),
            "with its key can't be used",
        ),
        (
            trusting(&servers).tls_identity(&one.cert, &one.cert),
            "the private key in",
        ),
        (
            trusting(&servers).tls_server_name("not a name"),
            "server name",
        ),
    ] {
        let error = builder.connect("https://127.0.0.1:1").await.unwrap_err();
        assert!(matches!(error, ConnectError::Credentials(_)), "{error:?}");
        assert!(!error.is_retryable());
        let words = in_words(&error);
        assert!(words.contains(says), "{says}: {words}");
        assert!(!words.contains("BEGIN"), "{words}");
    }
}

#[tokio::test]
async fn a_caller_that_is_refused_is_told_how() {
    let made = new_token("ci").unwrap();
    let (token, line) = made.trim_end().split_once('\n').unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens");
    fs::write(&file, line).unwrap();
    let permissions = folder.path().join("config.toml");
    let rule =
        "[[permission]]\nidentities = [\"token:ci\"]\nallow = [\"inspect\"]\nlocks = [\"\"]\n";
    fs::write(&permissions, rule).unwrap();
    let coordinator = Coordinator::in_process_with([
        "--token-file",
        file.to_str().unwrap(),
        "--config",
        permissions.to_str().unwrap(),
        "--max-sessions",
        "1",
    ]);
    coordinator.ready().await;
    let connect = |token: &str| {
        let client = Client::builder().bearer_token(token);
        client.connect(coordinator.endpoint())
    };
    let error = connect("somebody-elses").await.unwrap_err();
    assert!(
        matches!(error, ConnectError::Unauthenticated { .. }),
        "{error:?}"
    );
    assert!(!error.is_retryable());

    let client = connect(token).await.unwrap();
    assert!(!format!("{client:?}").contains(token));
    let error = client.lock("a").await.unwrap_err();
    let AcquireError::PermissionDenied { source, .. } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(source.metadata("permission"), Some("acquire"));
    assert!(!error.is_retryable());

    let error = connect(token).await.unwrap_err();
    assert!(error.is_retryable());
    let failure = error.failure().unwrap();
    assert_eq!(failure.metadata("limit"), Some("1"), "{error:?}");
    let ConnectError::LimitReached { retry_after, .. } = error else {
        panic!("{error:?}");
    };
    assert!(retry_after.is_some());
}

/// Serves HTTP/1, and resets other connections. Returns its URL.
async fn resets_http_2() -> String {
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", port.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = port.accept().await {
            if matches!(socket.read_u8().await, Ok(b'G')) {
                let _ = socket.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
            } else {
                socket.set_zero_linger().unwrap();
            }
        }
    });
    url
}

#[tokio::test]
async fn what_is_no_coordinator_is_told_apart_at_once() {
    let coordinator = Coordinator::in_process();
    let authority = Authority::new("servers");
    let (plain, port) = (coordinator.endpoint(), coordinator.admin_endpoint());
    let encrypted = plain.replace("http", "https");
    let resets = resets_http_2().await;
    for endpoint in [port.replace("http", "https"), encrypted, port, resets] {
        let builder = trusting(&authority);
        let error = builder.clone().connect(&endpoint).await.unwrap_err();
        assert!(matches!(error, ConnectError::Mismatch { .. }), "{error:?}");
        let admin = builder.admin(&endpoint).unwrap();
        let failure = admin.get_lock("a").await.unwrap_err();
        assert!(failure.is_mismatch() && !failure.is_retryable());
        let news = timeout(LIMIT, admin.watch_locks("").next()).await.unwrap();
        assert!(matches!(news, Some(Err(error)) if error.is_mismatch()));
    }
    // Behind this there may be a coordinator later.
    let proxy = FaultProxy::before(&coordinator.endpoint()).await;
    drop(coordinator);
    let error = Client::connect(proxy.endpoint()).await.unwrap_err();
    assert!(error.is_retryable(), "{error:?}");
}
