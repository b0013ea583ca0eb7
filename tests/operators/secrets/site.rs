//! Two coordinators that log everything, each in another format, and their output.

use std::{
    collections::HashSet,
    fmt::Debug,
    path::PathBuf,
    process::Command,
    sync::{Arc, Mutex},
    time::Duration,
};

use leasehold_tests::{
    Coordinator, CoordinatorProcess, RedisServer, binaries, collector::Collector,
    raw::fresh_owner_id,
};
use prost::Message;
use rustix::process::Signal;
use tempfile::TempDir;
use tonic::{Request, Status, transport::Channel};

use super::{LIMIT, search::Secret};

/// Secrets known so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Secrets(Arc<Mutex<HashSet<Secret>>>);

impl Secrets {
    pub(crate) fn add(&self, kind: &'static str, bytes: impl Into<Vec<u8>>) {
        let bytes = bytes.into();
        assert!(
            bytes.len() >= 12,
            "a {kind} that is short would be found by chance"
        );
        self.0.lock().unwrap().insert(Secret { kind, bytes });
    }

    pub(crate) fn all(&self) -> Vec<Secret> {
        self.0.lock().unwrap().iter().cloned().collect()
    }
}

/// Texts shown to readers who may not learn a secret: errors, and the output for operators.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told(Arc<Mutex<Vec<u8>>>);

impl Told {
    pub(crate) fn text(&self, text: &[u8]) {
        let mut told = self.0.lock().unwrap();
        told.extend(text);
        told.push(b'\n');
    }

    /// Adds a message, as text and as bytes of the wire.
    pub(crate) fn message(&self, message: &(impl Message + Debug)) {
        self.text(format!("{message:?}").as_bytes());
        self.text(&message.encode_to_vec());
    }

    /// Adds an error with all its causes.
    pub(crate) fn error(&self, status: &Status) {
        self.text(format!("{status:?} {status}").as_bytes());
        self.text(status.details());
    }

    pub(crate) fn all(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }
}

pub(crate) struct Site {
    pub(crate) coordinators: [CoordinatorProcess; 2],
    pub(crate) redis: RedisServer,
    pub(crate) secrets: Secrets,
    _directory: TempDir,
    /// Read by each coordinator.
    pub(crate) file: PathBuf,
    collector: Collector,
    errors: Told,
    answers: Told,
    output: Told,
    metrics: Told,
}

/// Returns a fresh bearer token, and notes it as secret.
pub(crate) fn fresh_token(secrets: &Secrets) -> String {
    let bytes = [fresh_owner_id(), fresh_owner_id()].concat();
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let token = format!("lh_{hex}");
    secrets.add("bearer token", token.as_bytes());
    token
}

impl Site {
    pub(crate) async fn start() -> Self {
        let secrets = Secrets::default();
        let password = "hunter2-of-the-store";
        secrets.add("password", password);
        let redis = RedisServer::options().password(password).start();
        let directory = tempfile::tempdir().unwrap();
        let store = directory.path().join("store");
        std::fs::write(&store, redis.url()).unwrap();
        let collector = Collector::start().await;
        let file = directory.path().join("leasehold.toml");
        let text = format!(
            "store-file = {store:?}\notlp-endpoint = {:?}\ntrace-sample = 1\nlog = \"trace\"\nmin-ttl = \"1s\"\n",
            collector.endpoint()
        );
        std::fs::write(&file, text).unwrap();
        let start = |format: &str| {
            Coordinator::process()
                .arguments(["--config", file.to_str().unwrap(), "--log-format", format])
                .environment("OTEL_BSP_SCHEDULE_DELAY", "100")
                .start()
        };
        Self {
            coordinators: [start("human"), start("json")],
            redis,
            secrets,
            file,
            _directory: directory,
            collector,
            errors: Told::default(),
            answers: Told::default(),
            output: Told::default(),
            metrics: Told::default(),
        }
    }

    pub(crate) fn endpoint(&self, at: usize) -> String {
        self.coordinators[at].endpoint()
    }

    pub(crate) async fn channel(&self, at: usize) -> Channel {
        self.coordinators[at].channel().await
    }

    /// Returns a call that carries a bearer token.
    pub(crate) fn call<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        let token = format!("Bearer {}", fresh_token(&self.secrets));
        let metadata = request.metadata_mut();
        metadata.insert("authorization", token.parse().unwrap());
        request
    }

    /// Notes an error, with all that it carries.
    pub(crate) fn error(&self, status: &Status) {
        self.errors.error(status);
    }

    /// Notes an error of a session.
    pub(crate) fn failure(&self, failure: &(impl Message + Debug)) {
        self.errors.message(failure);
    }

    /// Notes what an operator was told.
    pub(crate) fn answer(&self, answer: &(impl Message + Debug)) {
        self.answers.message(answer);
    }

    /// Notes what a program said.
    pub(crate) fn said(&self, text: &[u8]) {
        self.output.text(text);
    }

    /// Notes every owner id that the store has now.
    pub(crate) fn look_into_the_store(&self) {
        let mut connection = self.redis.connection();
        let keys: Vec<Vec<u8>> = redis::cmd("KEYS")
            .arg("lock:*")
            .query(&mut connection)
            .unwrap();
        for key in keys {
            let value: Option<Vec<u8>> = redis::cmd("GET")
                .arg(key)
                .query(&mut connection)
                .unwrap_or_default();
            // Of shared locks and semaphores it is a mark.
            if let Some(value) = value.filter(|value| value.len() >= 16) {
                self.secrets.add("stored owner id", value);
            }
        }
    }

    /// Ends both, so that everything they have to say is said.
    pub(crate) async fn finish(&mut self) {
        for at in 0..2 {
            let coordinator = &self.coordinators[at];
            let address = coordinator.admin_endpoint();
            for path in ["/metrics", "/readyz", "/livez"] {
                let mut curl = Command::new("curl");
                let output = curl
                    .args(["-s", &format!("{address}{path}")])
                    .output()
                    .unwrap();
                self.metrics.text(&output.stdout);
            }
        }
        let server = binaries::path("leasehold-server");
        for option in ["--print-config", "--help"] {
            let output = Command::new(&server)
                .args(["--config", self.file.to_str().unwrap(), option])
                .output()
                .unwrap();
            self.said(&output.stdout);
            self.said(&output.stderr);
        }
        for coordinator in &mut self.coordinators {
            coordinator.child().signal(Signal::TERM);
            coordinator
                .child()
                .wait(LIMIT + Duration::from_secs(5))
                .await;
        }
    }

    /// Returns every place in which no secret may be.
    pub(crate) fn places(&self) -> Vec<(String, Vec<u8>)> {
        let traces = Told::default();
        for request in self.collector.requests() {
            traces.message(&request);
        }
        let log = |at: usize| self.coordinators[at].log().into_bytes();
        assert!(self.coordinators[0].log().contains("DEBUG"));
        assert!(
            self.coordinators[1]
                .log()
                .contains("leasehold_server::requests")
        );
        vec![
            ("the log for people".to_owned(), log(0)),
            ("the log in JSON".to_owned(), log(1)),
            ("traces".to_owned(), traces.all()),
            ("errors".to_owned(), self.errors.all()),
            ("what operators are told".to_owned(), self.answers.all()),
            ("metrics and probes".to_owned(), self.metrics.all()),
            ("what programs print".to_owned(), self.output.all()),
        ]
    }
}
