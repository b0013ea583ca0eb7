//! `rediss://`: the right authority is trusted, any other is not.

use std::path::{Path, PathBuf};

use leasehold_store::redis::{
    link::{Link, LinkOptions, Subscription},
    status::DownCause,
    url::RedisTarget,
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use redis::Value;
use tempfile::TempDir;
use tokio::{sync::mpsc, time::timeout};

use super::server::{PATIENCE, RedisServer, run, until_down, until_up};

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
        let certificates = Certificates::new();
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
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
            "no",
        ]);
        Self {
            server,
            certificates,
            port,
        }
    }

    async fn refusal(&self, url: &str, ca: Option<&Path>) -> (DownCause, String) {
        let link = Link::start(RedisTarget::parse(url, ca).unwrap(), LinkOptions::default());
        until_down(&mut link.status()).await
    }
}

#[tokio::test]
async fn a_server_of_the_given_authority_is_used() {
    let mut tls = TlsServer::start();
    tls.server.admin::<()>("CONFIG SET requirepass hunter2");
    let url = format!("rediss://:hunter2@127.0.0.1:{}/2", tls.port);
    let (messages, mut received) = mpsc::channel(1);
    let subscription = Some(Subscription {
        channel: b"c".to_vec(),
        messages,
    });
    let options = LinkOptions {
        subscription,
        ..LinkOptions::default()
    };
    let link = Link::start(
        RedisTarget::parse(&url, Some(&tls.certificates.path("ca.pem"))).unwrap(),
        options,
    );
    until_up(&mut link.status()).await;
    until_up(&mut link.subscription_status().unwrap()).await;
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
    assert_eq!(cause, DownCause::Lost, "{reason}");
    assert!(reason.contains("write rediss://"), "{reason}");

    let url = format!("rediss://127.0.0.1:{}", tls.server.port());
    let (cause, reason) = tls
        .refusal(&url, Some(&tls.certificates.path("ca.pem")))
        .await;
    assert!(
        matches!(cause, DownCause::Tls | DownCause::TimedOut),
        "{reason}"
    );
    assert!(reason.contains("TLS"), "{reason}");
}
