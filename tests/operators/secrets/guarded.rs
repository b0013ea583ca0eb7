//! Two coordinators over TLS that require an identity, each with another log format, and their output.

use std::{
    fs,
    ops::{Deref, DerefMut},
    path::PathBuf,
};

use leasehold_tests::{
    Authority, Coordinator, RedisServer, certificates::Issued, collector::Collector,
    ports::free_port,
};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tonic::transport::Channel;

use super::{
    credentials::{AUDIENCE, ISSUER, Listed, Signer, note_key_of},
    site::{Heard, Secrets, Told},
};

/// Everything for those who work, a little for who reads; others may do nothing.
const PERMISSIONS: &str = r#"
[[permission]]
identities = ["token:worker", "token:leaving", "jwt:worker", "cert:worker"]
allow = ["acquire", "inspect", "administer"]
locks = [""]
elections = [""]

[[permission]]
identities = ["token:reader"]
allow = ["inspect"]
locks = ["public/"]
"#;

pub(super) struct Guarded {
    heard: Heard,
    pub(super) signer: Signer,
    /// Certified the coordinators.
    pub(super) servers: Authority,
    /// The certificate of the coordinators.
    pub(super) server: Issued,
    /// A client's certificate.
    pub(super) client: Issued,
    /// A certificate for servers of an authority that nobody knows, and of no use to anybody here.
    pub(super) strange: Issued,
    pub(super) worker: Listed,
    pub(super) reader: Listed,
    pub(super) leaving: Listed,
    folder: TempDir,
    _redis: RedisServer,
    _authorities: [Authority; 2],
    pub(super) client_says: Told,
    pub(super) client_logs: Told,
}

impl Deref for Guarded {
    type Target = Heard;

    fn deref(&self) -> &Heard {
        &self.heard
    }
}

impl DerefMut for Guarded {
    fn deref_mut(&mut self) -> &mut Heard {
        &mut self.heard
    }
}

impl Guarded {
    pub(super) async fn start() -> Self {
        let secrets = Secrets::default();
        let [servers, clients, strangers] = ["servers", "clients", "strangers"].map(Authority::new);
        let (server, store) = (servers.server().issue(), servers.server().issue());
        let [client, of_store] = ["worker", "store"].map(|name| clients.client(name).issue());
        let strange = strangers.server().issue();
        for issued in [&server, &store, &client, &of_store, &strange] {
            note_key_of(&secrets, issued);
        }
        let port = free_port();
        let redis = serve_over_tls(port, &store, &clients);
        let signer = Signer::new(&secrets);
        let [worker, reader, leaving] =
            ["worker", "reader", "leaving"].map(|name| Listed::new(&secrets, name));
        let collector = Collector::start().await;

        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        let listed = [&worker, &reader, &leaving].map(|listed| listed.line.as_str());
        fs::write(file("tokens"), listed.join("\n")).unwrap();
        fs::write(file("jwks.json"), signer.public()).unwrap();
        let settings = [
            ("store", format!("rediss://127.0.0.1:{port}")),
            ("store-ca", servers.ca().display().to_string()),
            ("store-cert", of_store.cert.display().to_string()),
            ("store-key", of_store.key.display().to_string()),
            ("tls-client-ca", clients.ca().display().to_string()),
            ("tls-client-auth", "optional".to_owned()),
            ("token-file", file("tokens").display().to_string()),
            ("jwt-keys", file("jwks.json").display().to_string()),
            ("jwt-issuer", ISSUER.to_owned()),
            ("jwt-audience", AUDIENCE.to_owned()),
            ("otlp-endpoint", collector.endpoint()),
            ("log", "trace".to_owned()),
        ];
        let settings = settings.map(|(key, value)| format!("{key} = {value:?}\n"));
        let text = format!("{}trace-sample = 1\n{PERMISSIONS}", settings.concat());
        fs::write(file("leasehold.toml"), text).unwrap();
        let start = |format: &str| {
            Coordinator::process()
                .arguments(["--config", file("leasehold.toml").to_str().unwrap()])
                .arguments(server.flags())
                .arguments(["--admin-tls", "--log-format", format])
                // Callers are refused for what they show, however many there are in a second.
                .arguments(["--max-failed-authentications-per-second", "0"])
                .environment("OTEL_BSP_SCHEDULE_DELAY", "100")
                .start()
        };
        Self {
            heard: Heard::start(secrets, collector, start),
            signer,
            servers,
            server,
            client,
            strange,
            worker,
            reader,
            leaving,
            folder,
            _redis: redis,
            _authorities: [clients, strangers],
            client_says: Told::default(),
            client_logs: Told::default(),
        }
    }

    /// Returns a file of the coordinators' folder.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns a connection; with the client's certificate or without.
    pub(super) async fn channel(&self, at: usize, is_certified: bool) -> Channel {
        let client = is_certified.then_some(&self.client);
        let connected = self.servers.connect(&self.endpoint(at), client).await;
        connected.unwrap()
    }

    /// Ends both, after a look at what they tell on their admin ports.
    pub(super) async fn finish(&mut self) {
        let token = &self.worker.token;
        for coordinator in &self.coordinators {
            for path in ["/metrics", "/readyz", "/livez", "/none"] {
                let endpoint = coordinator.admin_endpoint();
                let address = endpoint.trim_start_matches("https://").parse().unwrap();
                let mut stream = self.servers.connect_http1(address).await;
                let request = format!(
                    "GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n"
                );
                stream.write_all(request.as_bytes()).await.unwrap();
                let mut answer = Vec::new();
                // It may end without a goodbye.
                let _ = stream.read_to_end(&mut answer).await;
                assert!(answer.starts_with(b"HTTP/1.1 "), "{path}");
                self.metrics.text(&answer);
            }
        }
        let file = self.file("leasehold.toml").display().to_string();
        let [cert, key] = self.server.flags();
        self.end(&["--config", &file, &cert, &key]).await;
    }

    /// Returns every place in which no secret may be.
    pub(super) fn places(&self) -> Vec<(String, Vec<u8>)> {
        let mut places = self.heard.places();
        places.push(("what the client shows".to_owned(), self.client_says.all()));
        places.push(("what the client logs".to_owned(), self.client_logs.all()));
        places
    }
}

/// Returns a Redis server that asks for certificates on another port.
fn serve_over_tls(port: u16, served_with: &Issued, clients: &Authority) -> RedisServer {
    let port = port.to_string();
    let [cert, key, ca] =
        [&served_with.cert, &served_with.key, &clients.ca()].map(|path| path.display().to_string());
    let arguments = [
        "--tls-port",
        &port,
        "--tls-cert-file",
        &cert,
        "--tls-key-file",
        &key,
        "--tls-ca-cert-file",
        &ca,
        "--tls-auth-clients",
        "yes",
    ];
    RedisServer::options().arguments(arguments).start()
}
