//! Deployment of two coordinators with audit logs, and tokens of its callers.

use std::{collections::BTreeMap, fs, process::Command, time::Duration};

use leasehold_client::Client;
use leasehold_tests::{Coordinator, RedisServer, binaries, coordinator::CoordinatorProcess, wait};
use serde_json::Value;

use crate::LIMIT;

const PERMISSIONS: &str = r#"
[[permission]]
identities = ["token:ops"]
allow = ["acquire", "inspect", "administer"]
locks = [""]
elections = [""]

[[permission]]
identities = ["token:ci"]
allow = ["acquire"]
locks = ["ci/"]
"#;

/// A deployment of two coordinators with audit logs, and tokens for `ops` and `ci`.
pub(super) struct Site {
    folder: tempfile::TempDir,
    redis: RedisServer,
    pub(super) tokens: BTreeMap<&'static str, String>,
}

impl Site {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut lines = String::new();
        let tokens = ["ops", "ci"].map(|name| {
            let mut server = Command::new(binaries::path("leasehold-server"));
            let made = server.args(["new-token", name]).output().unwrap();
            let made = String::from_utf8(made.stdout).unwrap();
            let line = made.lines().find(|line| line.contains("sha256:")).unwrap();
            lines.push_str(&format!("{line}\n"));
            (name, made.lines().next().unwrap().to_owned())
        });
        fs::write(folder.path().join("tokens"), lines).unwrap();
        fs::write(folder.path().join("config.toml"), PERMISSIONS).unwrap();
        Self {
            folder,
            redis: RedisServer::start(),
            tokens: tokens.into_iter().collect(),
        }
    }

    pub(super) fn file(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    pub(super) fn start(&self, name: &str) -> CoordinatorProcess {
        let log = self.file(&format!("{name}.log"));
        let (config, tokens) = (self.file("config.toml"), self.file("tokens"));
        let flags = ["--config", &config, "--token-file", &tokens, "--name", name];
        let coordinator = Coordinator::process().store(self.redis.url());
        coordinator
            .arguments(flags)
            .arguments(["--audit-log", &log, "--drain-timeout", "100ms"])
            .start()
    }

    pub(super) async fn client(&self, endpoints: &str, token: &str, name: &str) -> Client {
        let builder = Client::builder()
            .client_name(name)
            .ttl(Duration::from_secs(5))
            .disconnect_grace(Duration::from_secs(5))
            .bearer_token(&self.tokens[token]);
        builder.connect(endpoints).await.unwrap()
    }

    /// Returns the lines of a coordinator's log.
    pub(super) fn lines(&self, name: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.file(&format!("{name}.log"))).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        lines.collect()
    }

    /// Waits until a log has a line that this finds.
    pub(super) async fn line(&self, name: &str, found: impl Fn(&Value) -> bool) -> Value {
        wait::until("a line of the audit log", LIMIT, || async {
            let lines = self.lines(name);
            let line = lines.iter().find(|line| found(line)).cloned();
            line.ok_or(lines)
        })
        .await
    }
}
