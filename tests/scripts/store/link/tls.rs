//! `rediss://`: the link trusts the right authority, and no other.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use leasehold_core::id::CoordinatorId;
use leasehold_store::{
    Options, Store, StoreUrlError, TlsFiles,
    measure::Meter,
    redis::{
        link::{Link, LinkOptions},
        status::{DownCause, LinkStatus},
        url::RedisTarget,
    },
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use redis::Value;
use tempfile::TempDir;
use tokio::{
    sync::{mpsc, watch},
    time::timeout,
};

use crate::store::{
    ports::free_port,
    server::{PATIENCE, RedisServer, run, until_down, until_down_for, until_up},
};

/// An authority, and a certificate of it for 127.0.0.1 only.
struct Certificates {
    directory: TempDir,
}

impl Certificates {
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &ca).unwrap();
        let write =
            |name: &str, pem: String| std::fs::write(directory.path().join(name), pem).unwrap();
        write("ca.pem", ca.pem());
        write("server.pem", certificate.pem());
        write("server.key", key.serialize_pem());
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(["coordinator".to_owned()]).unwrap();
        // With its authority's own name OpenSSL would take it for signed by itself.
        params
            .distinguished_name
            .push(DnType::CommonName, "coordinator");
        write("client.pem", params.signed_by(&key, &ca).unwrap().pem());
        write("client.key", key.serialize_pem());
        Self { directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

/// A server whose port speaks TLS alone.
struct TlsServer {
    server: RedisServer,
    certificates: Certificates,
    port: u16,
}

impl TlsServer {
    fn start() -> Self {
        Self::start_asking("no")
    }

    /// Starts a server that asks its clients for certificates, or does not.
    fn start_asking(asking: &str) -> Self {
        let certificates = Certificates::new();
        let port = free_port();
        let path = |name: &str| certificates.path(name).to_str().unwrap().to_owned();
        let server = RedisServer::start_with(&[
            "--tls-port",
            &port.to_string(),
            "--tls-cert-file",
            &path("server.pem"),
            "--tls-key-file",
            &path("server.key"),
            "--tls-ca-cert-file",
            &path("ca.pem"),
            "--tls-auth-clients",
            asking,
        ]);
        Self {
            server,
            certificates,
            port,
        }
    }

    fn path(&self, name: &str) -> String {
        self.certificates.path(name).to_str().unwrap().to_owned()
    }

    /// Returns a sentinel that knows this server as the master `m`, over TLS, and whose port speaks TLS alone.
    fn sentinel(&self) -> (ChildGuard, u16) {
        let port = free_port();
        let file = self.certificates.path("sentinel.conf");
        let configuration = format!("sentinel monitor m 127.0.0.1 {} 1\n", self.port);
        std::fs::write(&file, configuration).unwrap();
        let child = Command::new("redis-server")
            .arg(&file)
            .args(["--sentinel", "--bind", "127.0.0.1", "--port", "0"])
            .args(["--tls-port", &port.to_string(), "--tls-replication", "yes"])
            .args(["--tls-cert-file", &self.path("server.pem")])
            .args(["--tls-key-file", &self.path("server.key")])
            .args(["--tls-ca-cert-file", &self.path("ca.pem")])
            .args(["--tls-auth-clients", "no"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        (ChildGuard(child), port)
    }

    async fn refusal(&self, url: &str, ca: Option<&Path>) -> (DownCause, String) {
        let link = Link::start(RedisTarget::parse(url, ca).unwrap(), LinkOptions::default());
        until_down(&mut link.status()).await
    }
}

struct ChildGuard(Child);

impl Drop for ChildGuard {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// Opens a store, and returns it with its first lasting status.
fn open(url: String, ca: PathBuf) -> (Store, watch::Receiver<LinkStatus>) {
    let options = Options {
        url,
        tls: Some(&*ca).into(),
        key_prefix: "lock:".to_owned(),
        timeout: Duration::from_secs(1),
        connections: 1,
        acknowledgement: None,
        max_hold: Duration::from_secs(10),
        meter: Meter::default(),
        coordinator: CoordinatorId::new("tls"),
    };
    let (store, _) = leasehold_store::open(options).unwrap();
    let status = store.status();
    (store, status)
}

#[tokio::test]
async fn sentinels_and_the_master_that_they_name_are_checked_alike() {
    let tls = TlsServer::start();
    let (_sentinel, port) = tls.sentinel();
    let url = format!("rediss+sentinel://127.0.0.1:{port}/m");
    let (_store, mut status) = open(url.clone(), tls.certificates.path("ca.pem"));
    until_up(&mut status).await;

    let stranger = Certificates::new();
    let (_store, mut status) = open(url, stranger.path("ca.pem"));
    let reason = until_down_for(&mut status, DownCause::Tls).await;
    let sentinel = format!("TLS with the sentinel at 127.0.0.1:{port} failed");
    assert!(reason.contains(&sentinel), "{reason}");
}

#[tokio::test]
async fn a_server_of_the_given_authority_is_used() {
    let mut tls = TlsServer::start();
    tls.server.admin::<()>("CONFIG SET requirepass hunter2");
    let url = format!("rediss://:hunter2@127.0.0.1:{}/2", tls.port);
    let (messages, mut received) = mpsc::channel(1);
    let link = Link::start(
        RedisTarget::parse(&url, Some(&*tls.certificates.path("ca.pem"))).unwrap(),
        LinkOptions::default(),
    );
    let listening = link.subscribe(b"c".to_vec(), messages, Some);
    until_up(&mut link.status()).await;
    until_up(&mut listening.status()).await;
    assert_eq!(run(&link, "SET key value").await, Value::Okay);
    assert_eq!(run(&link, "PUBLISH c hello").await, Value::Int(1));
    assert_eq!(
        timeout(PATIENCE, received.recv()).await.unwrap().unwrap(),
        b"hello"
    );
}

#[tokio::test]
async fn a_server_that_cannot_prove_itself_is_refused() {
    let tls = TlsServer::start();
    let url = format!("rediss://127.0.0.1:{}", tls.port);
    let stranger = Certificates::new();
    let (cause, reason) = tls.refusal(&url, Some(&stranger.path("ca.pem"))).await;
    assert_eq!(cause, DownCause::Tls, "{reason}");
    assert!(
        cause.needs_operator() && reason.contains("certificate"),
        "{reason}"
    );

    let other_name = format!("rediss://localhost:{}", tls.port);
    let (cause, reason) = tls
        .refusal(&other_name, Some(&tls.certificates.path("ca.pem")))
        .await;
    assert_eq!(cause, DownCause::Tls, "{reason}");
    assert!(reason.contains("localhost"), "{reason}");
}

#[tokio::test]
async fn a_wrong_scheme_is_not_a_riddle() {
    let tls = TlsServer::start();
    let (cause, reason) = tls
        .refusal(&format!("redis://127.0.0.1:{}", tls.port), None)
        .await;
    assert!(
        matches!(cause, DownCause::Lost | DownCause::NotRedis),
        "{reason}"
    );
    assert!(reason.contains("write rediss://"), "{reason}");

    let url = format!("rediss://127.0.0.1:{}", tls.server.port());
    let (cause, reason) = tls
        .refusal(&url, Some(&tls.certificates.path("ca.pem")))
        .await;
    assert!(
        matches!(cause, DownCause::Tls | DownCause::TimedOut),
        "{reason}"
    );
    assert!(reason.contains("write redis:// "), "{reason}");
}

#[tokio::test]
async fn files_that_are_replaced_count_for_the_next_connection() {
    let tls = TlsServer::start_asking("yes");
    let stranger = Certificates::new();
    // What is wrong at first: the authority, and our own certificate.
    let ours = TempDir::new().unwrap();
    let path = |name: &str| ours.path().join(name);
    let take = |from: &Certificates, names: &[&str]| {
        for name in names {
            std::fs::copy(from.path(name), path("new")).unwrap();
            std::fs::rename(path("new"), path(name)).unwrap();
        }
    };
    take(&stranger, &["ca.pem", "client.pem", "client.key"]);
    let files = TlsFiles {
        ca: Some(path("ca.pem")),
        identity: Some((path("client.pem"), path("client.key"))),
    };
    let url = format!("rediss://127.0.0.1:{}", tls.port);
    let link = Link::start(
        RedisTarget::parse(&url, files.clone()).unwrap(),
        LinkOptions::default(),
    );
    let mut status = link.status();
    until_down_for(&mut status, DownCause::Tls).await;
    take(&tls.certificates, &["ca.pem"]);
    // The server hangs up on a certificate of somebody else's.
    until_down_for(&mut status, DownCause::Lost).await;
    // Half of an identity is none: what was there before goes on.
    take(&tls.certificates, &["client.pem"]);
    assert!(matches!(
        files.check()[..],
        [StoreUrlError::IdentityUnusable { .. }]
    ));
    take(&tls.certificates, &["client.key"]);
    assert!(files.check().is_empty());
    until_up(&mut status).await;
    assert_eq!(run(&link, "SET key value").await, Value::Okay);

    // Without any we are not let in.
    let none = Link::start(
        RedisTarget::parse(&url, Some(&*path("ca.pem"))).unwrap(),
        LinkOptions::default(),
    );
    until_down_for(&mut none.status(), DownCause::Lost).await;
}
