//! `rediss://`: the link trusts the right authority, and no other.

use std::{
    fs,
    path::{Path, PathBuf},
};

use leasehold_store::{
    Options, Store, StoreUrlError, TlsFiles,
    redis::{
        link::{Link, LinkOptions},
        status::DownCause,
        url::RedisTarget,
    },
};
use leasehold_tests::{
    Authority, RedisServer, certificates, certificates::Issued, ports::free_port,
};
use redis::Value;
use tempfile::TempDir;

use crate::{
    common::{options, until_up},
    store::server::{Server, carries_messages, run, until_down, until_down_for},
};

/// A server with a certificate of an authority, for 127.0.0.1 alone.
struct TlsServer {
    server: Server,
    authority: Authority,
    certificate: Issued,
    /// The port that speaks TLS.
    port: u16,
}

impl TlsServer {
    fn start() -> Self {
        Self::start_asking("no")
    }

    /// Starts a server that asks its clients for certificates, or does not.
    fn start_asking(asking: &str) -> Self {
        let authority = Authority::new("store");
        let certificate = authority.server_for(&["127.0.0.1"]).issue();
        let port = free_port();
        let arguments = arguments(&authority, &certificate, port, asking);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        Self {
            server: Server::start_with(&arguments),
            authority,
            certificate,
            port,
        }
    }

    fn url(&self) -> String {
        format!("rediss://127.0.0.1:{}", self.port)
    }

    /// Returns a sentinel that knows this server as the master `m`, over TLS, and the port at which it speaks TLS.
    fn sentinel(&self) -> (RedisServer, u16) {
        let port = free_port();
        let arguments = arguments(&self.authority, &self.certificate, port, "no");
        let arguments = arguments.iter().map(String::as_str);
        let sentinel = RedisServer::options()
            .sentinel(format!("sentinel monitor m 127.0.0.1 {} 1\n", self.port))
            .arguments(arguments.chain(["--tls-replication", "yes"]));
        (sentinel.start(), port)
    }

    async fn refusal(&self, url: &str, ca: Option<&Path>) -> (DownCause, String) {
        let link = Link::start(RedisTarget::parse(url, ca).unwrap(), LinkOptions::default());
        until_down(&mut link.status()).await
    }
}

/// Returns the arguments of a server with a port for TLS.
fn arguments(authority: &Authority, own: &Issued, port: u16, asking: &str) -> Vec<String> {
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    [
        ("port", port.to_string()),
        ("cert-file", path(&own.cert)),
        ("key-file", path(&own.key)),
        ("ca-cert-file", path(&authority.ca())),
        ("auth-clients", asking.to_owned()),
    ]
    .into_iter()
    .flat_map(|(name, value)| [format!("--tls-{name}"), value])
    .collect()
}

/// Opens a store that trusts an authority.
fn open(url: &str, authority: &Authority) -> Store {
    let (store, _) = leasehold_store::open(Options {
        tls: Some(&*authority.ca()).into(),
        ..options(url)
    })
    .unwrap();
    store
}

#[tokio::test]
async fn sentinels_and_the_master_that_they_name_are_checked_alike() {
    let tls = TlsServer::start();
    let (_sentinel, port) = tls.sentinel();
    let url = format!("rediss+sentinel://127.0.0.1:{port}/m");
    let store = open(&url, &tls.authority);
    until_up(&mut store.status()).await;

    let store = open(&url, &Authority::new("stranger"));
    let reason = until_down_for(&mut store.status(), DownCause::Tls).await;
    let sentinel = format!("TLS with the sentinel at 127.0.0.1:{port} failed");
    assert!(reason.contains(&sentinel), "{reason}");
}

#[tokio::test]
async fn a_server_of_the_given_authority_is_used() {
    let mut tls = TlsServer::start();
    tls.server.admin::<()>("CONFIG SET requirepass hunter2");
    let url = format!("rediss://:hunter2@127.0.0.1:{}/2", tls.port);
    let link = Link::start(
        RedisTarget::parse(&url, Some(&*tls.authority.ca())).unwrap(),
        LinkOptions::default(),
    );
    carries_messages(&link).await;
    assert_eq!(run(&link, "SET key value").await, Value::Okay);
}

#[tokio::test]
async fn a_server_that_cannot_prove_itself_is_refused() {
    let tls = TlsServer::start();
    let stranger = Authority::new("stranger");
    let (cause, reason) = tls.refusal(&tls.url(), Some(&stranger.ca())).await;
    assert_eq!(cause, DownCause::Tls, "{reason}");
    assert!(
        cause.needs_operator() && reason.contains("certificate"),
        "{reason}"
    );

    let other_name = format!("rediss://localhost:{}", tls.port);
    let (cause, reason) = tls.refusal(&other_name, Some(&tls.authority.ca())).await;
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
    let (cause, reason) = tls.refusal(&url, Some(&tls.authority.ca())).await;
    assert!(
        matches!(cause, DownCause::Tls | DownCause::TimedOut),
        "{reason}"
    );
    assert!(reason.contains("write redis:// "), "{reason}");
}

#[tokio::test]
async fn files_that_are_replaced_count_for_the_next_connection() {
    let tls = TlsServer::start_asking("yes");
    let (strangers, known) = (Authority::new("stranger"), &tls.authority);
    // What is wrong at first: the authority, and our own certificate.
    let directory = TempDir::new().unwrap();
    let ca = directory.path().join("ca.pem");
    let [ours, right] = [&strangers, known].map(|of| of.client("coordinator").issue());
    let take = |from: PathBuf, to: &Path| {
        certificates::replace(to, &fs::read_to_string(from).unwrap());
    };
    take(strangers.ca(), &ca);
    let files = TlsFiles {
        ca: Some(ca.clone()),
        identity: Some((ours.cert.clone(), ours.key.clone())),
    };
    let link = Link::start(
        RedisTarget::parse(&tls.url(), files.clone()).unwrap(),
        LinkOptions::default(),
    );
    let mut status = link.status();
    until_down_for(&mut status, DownCause::Tls).await;
    take(known.ca(), &ca);
    // The server hangs up on a certificate of somebody else's.
    until_down_for(&mut status, DownCause::CertificateWanted).await;
    // Half of an identity is none: what was there before goes on.
    take(right.cert, &ours.cert);
    assert!(matches!(
        files.check()[..],
        [StoreUrlError::IdentityUnusable { .. }]
    ));
    take(right.key, &ours.key);
    assert!(files.check().is_empty());
    until_up(&mut status).await;
    assert_eq!(run(&link, "SET key value").await, Value::Okay);

    // Without any we are not let in.
    let none = Link::start(
        RedisTarget::parse(&tls.url(), Some(&*ca)).unwrap(),
        LinkOptions::default(),
    );
    let reason = until_down_for(&mut none.status(), DownCause::CertificateWanted).await;
    assert!(reason.contains("asks for one and got none"), "{reason}");
}
