//! Two coordinators over TLS that require an identity, each with another log format, and their output.

use std::{fs, path::PathBuf, process::Stdio, time::Duration};

use leasehold_tests::{
    Authority, Coordinator, CoordinatorProcess, RedisServer, binaries, certificates::Issued,
    collector::Collector, ports::free_port,
};
use tempfile::TempDir;
use tokio::process::Command;
use tonic::transport::Channel;

use super::{
    LIMIT,
    credentials::{AUDIENCE, ISSUER, Listed, Signer, note_key_of},
    site::{Secrets, Told},
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
    pub(super) coordinators: [CoordinatorProcess; 2],
    pub(super) secrets: Secrets,
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
    collector: Collector,
    pub(super) errors: Told,
    pub(super) answers: Told,
    pub(super) client_says: Told,
    pub(super) client_logs: Told,
    output: Told,
    metrics: Told,
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
            coordinators: [start("human"), start("json")],
            secrets,
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
            collector,
            errors: Told::default(),
            answers: Told::default(),
            client_says: Told::default(),
            client_logs: Told::default(),
            output: Told::default(),
            metrics: Told::default(),
        }
    }

    /// Returns a file of the coordinators' folder.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn endpoint(&self, at: usize) -> String {
        self.coordinators[at].endpoint()
    }

    /// Returns a connection; with the client's certificate or without.
    pub(super) async fn channel(&self, at: usize, is_certified: bool) -> Channel {
        let client = is_certified.then_some(&self.client);
        let connected = self.servers.connect(&self.endpoint(at), client).await;
        connected.unwrap()
    }

    /// Runs a program and notes what it says; tells whether it succeeded.
    pub(super) async fn run(&self, program: &str, arguments: &[&str], token: Option<&str>) -> bool {
        let mut command = Command::new(binaries::path(program));
        command.args(arguments).stdin(Stdio::null());
        command.env("RUST_BACKTRACE", "1").env("RUST_LOG", "trace");
        if let Some(token) = token {
            command.env("LEASEHOLD_TOKEN", token);
        }
        let output = tokio::time::timeout(LIMIT, command.output()).await;
        let output = output.unwrap().unwrap();
        self.output.text(&output.stdout);
        self.output.text(&output.stderr);
        output.status.success()
    }

    /// Ends both, so that everything they have to say is said.
    pub(super) async fn finish(&mut self) {
        let ca = self.servers.ca().display().to_string();
        let bearer = format!("Authorization: Bearer {}", self.worker.token);
        for coordinator in &self.coordinators {
            for path in ["/metrics", "/readyz", "/livez", "/none"] {
                let url = format!("{}{path}", coordinator.admin_endpoint());
                let mut curl = Command::new("curl");
                curl.args(["-s", "--cacert", &ca, "-H", &bearer, &url]);
                let output = curl.output().await.unwrap();
                assert!(output.status.success(), "{output:?}");
                self.metrics.text(&output.stdout);
            }
        }
        let file = self.file("leasehold.toml").display().to_string();
        let [cert, key] = self.server.flags();
        for option in ["--print-config", "--help"] {
            let arguments = ["--config", &file, &cert, &key, option];
            assert!(self.run("leasehold-server", &arguments, None).await);
        }
        let arguments = ["check-config", "--config", &file, &cert, &key];
        assert!(self.run("leasehold-server", &arguments, None).await);
        for coordinator in &mut self.coordinators {
            coordinator.terminate();
            let limit = LIMIT + Duration::from_secs(5);
            coordinator.child().wait(limit).await;
        }
    }

    /// Returns every place in which no secret may be.
    pub(super) fn places(&self) -> Vec<(String, Vec<u8>)> {
        let traces = Told::default();
        for request in self.collector.requests() {
            traces.message(&request);
        }
        let log = |at: usize| self.coordinators[at].log();
        for at in 0..2 {
            assert!(log(at).contains("DEBUG"));
        }
        let places = [
            ("the log for people", log(0).into_bytes()),
            ("the log in JSON", log(1).into_bytes()),
            ("traces", traces.all()),
            ("errors", self.errors.all()),
            ("what operators are told", self.answers.all()),
            ("metrics and probes", self.metrics.all()),
            ("what programs print", self.output.all()),
            ("what the client shows", self.client_says.all()),
            ("what the client logs", self.client_logs.all()),
        ];
        places.map(|(place, text)| (place.to_owned(), text)).into()
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
