//! Two coordinators that log everything, each in another format, and their output.

use std::{
    collections::HashSet,
    fmt::Debug,
    ops::{Deref, DerefMut},
    path::PathBuf,
    process::Stdio,
    sync::{Arc, Mutex},
};

use leasehold_tests::{
    Coordinator, CoordinatorProcess, RedisServer, binaries, collector::Collector,
    raw::fresh_owner_id, wait,
};
use prost::Message;
use tempfile::TempDir;
use tokio::process::Command;
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

/// Two coordinators that log everything, each in another format, and what is heard of them in places where no secret may be.
pub(crate) struct Heard {
    pub(crate) coordinators: [CoordinatorProcess; 2],
    pub(crate) secrets: Secrets,
    collector: Collector,
    pub(crate) errors: Told,
    pub(crate) answers: Told,
    pub(crate) metrics: Told,
    output: Told,
}

impl Heard {
    /// Starts both, with the log format as the argument.
    pub(crate) fn start(
        secrets: Secrets,
        collector: Collector,
        start: impl Fn(&str) -> CoordinatorProcess,
    ) -> Self {
        Self {
            coordinators: [start("human"), start("json")],
            secrets,
            collector,
            errors: Told::default(),
            answers: Told::default(),
            metrics: Told::default(),
            output: Told::default(),
        }
    }

    pub(crate) fn endpoint(&self, at: usize) -> String {
        self.coordinators[at].endpoint()
    }

    /// Returns how often both have logged this.
    pub(crate) fn logged(&self, words: &str) -> [usize; 2] {
        [0, 1].map(|at: usize| self.coordinators[at].log().matches(words).count())
    }

    /// Waits until both have logged this more often than before.
    pub(crate) async fn until_logged(&self, words: &str, before: [usize; 2]) {
        wait::until(words, LIMIT, || async {
            let now = self.logged(words);
            let is_told = now.iter().zip(before).all(|(now, before)| *now > before);
            is_told.then_some(()).ok_or(now)
        })
        .await;
    }

    /// Runs a program and notes what it says; tells whether it succeeded.
    pub(crate) async fn run(&self, program: &str, arguments: &[&str], token: Option<&str>) -> bool {
        let mut command = Command::new(binaries::path(program));
        command.args(arguments).stdin(Stdio::null());
        command.env("RUST_BACKTRACE", "1").env("RUST_LOG", "trace");
        if let Some(token) = token {
            command.env("LEASEHOLD_TOKEN", token);
        }
        let output = tokio::time::timeout(LIMIT, command.output()).await;
        let output = output.unwrap().unwrap();
        self.said(&output.stdout);
        self.said(&output.stderr);
        output.status.success()
    }

    /// Notes what a program said.
    pub(crate) fn said(&self, text: &[u8]) {
        self.output.text(text);
    }

    /// Has coordinators with these arguments tell their configuration, and ends both, so that everything they have to say is said.
    pub(crate) async fn end(&mut self, arguments: &[&str]) {
        for option in ["--print-config", "--help"] {
            let arguments = [arguments, &[option]].concat();
            assert!(self.run("leasehold-server", &arguments, None).await);
        }
        let arguments = [&["check-config"], arguments].concat();
        assert!(self.run("leasehold-server", &arguments, None).await);
        for coordinator in &mut self.coordinators {
            coordinator.terminate();
            coordinator.child().wait(LIMIT).await;
        }
    }

    /// Returns every place in which no secret may be.
    pub(crate) fn places(&self) -> Vec<(String, Vec<u8>)> {
        let traces = Told::default();
        for request in self.collector.requests() {
            traces.message(&request);
        }
        let [human, json] = self.coordinators.each_ref().map(CoordinatorProcess::log);
        assert!(human.contains("DEBUG") && json.contains("leasehold_server::requests"));
        let places = [
            ("the log for people", human.into_bytes()),
            ("the log in JSON", json.into_bytes()),
            ("traces", traces.all()),
            ("errors", self.errors.all()),
            ("what operators are told", self.answers.all()),
            ("metrics and probes", self.metrics.all()),
            ("what programs print", self.output.all()),
        ];
        places.map(|(place, text)| (place.to_owned(), text)).into()
    }
}

/// Coordinators whose callers need no credentials, on a Redis server with a password.
pub(crate) struct Site {
    heard: Heard,
    pub(crate) redis: RedisServer,
    _directory: TempDir,
    /// Read by each coordinator.
    pub(crate) file: PathBuf,
}

impl Deref for Site {
    type Target = Heard;

    fn deref(&self) -> &Heard {
        &self.heard
    }
}

impl DerefMut for Site {
    fn deref_mut(&mut self) -> &mut Heard {
        &mut self.heard
    }
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
            heard: Heard::start(secrets, collector, start),
            redis,
            _directory: directory,
            file,
        }
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

    /// Ends both, after a look at what they tell on their admin ports.
    pub(crate) async fn finish(&mut self) {
        for coordinator in &self.coordinators {
            for path in ["/metrics", "/readyz", "/livez"] {
                let (Ok(told) | Err(told)) = coordinator.asked(path).await;
                self.metrics.text(told.as_bytes());
            }
        }
        let file = self.file.display().to_string();
        self.end(&["--config", &file]).await;
    }
}
