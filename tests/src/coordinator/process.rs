//! A coordinator as a process of its own.

use std::{
    fs::File,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use leasehold_server::{config::Config, probe::probe};
use tempfile::TempDir;

use super::Metrics;
use crate::{binaries, hosts::Host, process::ChildProcess, raw, wait};

/// Longest time until a coordinator reports its ports.
const START: Duration = Duration::from_secs(10);

/// Options of a coordinator process.
#[derive(Clone, Debug)]
#[must_use]
pub struct CoordinatorOptions {
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    host: Option<Host>,
}

impl CoordinatorOptions {
    pub(super) fn new() -> Self {
        Self {
            arguments: Vec::new(),
            environment: Vec::new(),
            host: None,
        }
    }

    /// Keeps locks in the store at `url`. In memory by default.
    pub fn store(self, url: impl Into<String>) -> Self {
        self.arguments(["--store".to_owned(), url.into()])
    }

    /// Passes further arguments.
    pub fn arguments(mut self, arguments: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Runs it on a host. It has to listen on the host's address.
    pub fn host(mut self, host: Option<&Host>) -> Self {
        self.host = host.cloned();
        self
    }

    /// Sets an environment variable.
    pub fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Returns the command line, with listeners on free ports unless the arguments say otherwise.
    pub fn command(&self) -> Command {
        let mut command = Command::new(binaries::path("leasehold-server"));
        for (flag, address) in [
            ("--listen", "127.0.0.1:0"),
            ("--admin-listen", "127.0.0.1:0"),
        ] {
            if !self.arguments.iter().any(|argument| argument == flag) {
                command.args([flag, address]);
            }
        }
        command.args(&self.arguments);
        if let Some(host) = &self.host {
            command = host.command(&command);
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Starts it and waits until it is ready to serve.
    ///
    /// # Panics
    ///
    /// If it is not ready within ten seconds.
    pub fn start(self) -> CoordinatorProcess {
        let coordinator = self.start_unready();
        wait::until_blocking("the coordinator to be ready", START, || {
            coordinator.readiness_blocking()
        });
        coordinator
    }

    /// Starts it and waits until it listens, whether its store can be reached or not.
    ///
    /// # Panics
    ///
    /// If it does not say within ten seconds where it listens: with what it logged.
    pub fn start_unready(self) -> CoordinatorProcess {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        let log = directory.path().join("log");
        let mut command = self.command();
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&log).expect("the log can be made"));
        let mut child = ChildProcess::spawn("leasehold-server", command);
        let stdout = child.take_stdout();
        let (sender, first) = mpsc::channel();
        thread::spawn(move || {
            // Reads on to the end, so that the coordinator never waits for us to read.
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                // After the first nobody listens any more.
                let _ = sender.send(line);
            }
        });
        let line = first.recv_timeout(START).unwrap_or_else(|error| {
            child.kill();
            let log = std::fs::read_to_string(&log).unwrap_or_default();
            panic!("leasehold-server did not say where it listens: {error}; its log:\n{log}")
        });
        let scheme = |flag: &str| {
            let given = |argument: &String| argument.starts_with(flag);
            if self.arguments.iter().any(given) {
                "https"
            } else {
                "http"
            }
        };
        CoordinatorProcess {
            endpoint: format!("{}://{}", scheme("--tls-cert"), bound(&line, "grpc=")),
            admin_endpoint: format!("{}://{}", scheme("--admin-tls"), bound(&line, "admin=")),
            child,
            log,
            _directory: directory,
        }
    }
}

fn bound(line: &str, key: &str) -> String {
    line.split_whitespace()
        .find_map(|word| word.strip_prefix(key))
        .unwrap_or_else(|| panic!("leasehold-server's first line has no `{key}…`: {line}"))
        .to_owned()
}

/// A coordinator process. Killed on drop.
#[derive(Debug)]
pub struct CoordinatorProcess {
    child: ChildProcess,
    endpoint: String,
    admin_endpoint: String,
    log: PathBuf,
    _directory: TempDir,
}

impl CoordinatorProcess {
    /// Returns the URL of its gRPC port: `http://…`, or `https://…` if it has a certificate.
    pub fn endpoint(&self) -> String {
        self.endpoint.clone()
    }

    /// Returns the URL of its admin port: `http://…`, or `https://…` with `--admin-tls`.
    pub fn admin_endpoint(&self) -> String {
        self.admin_endpoint.clone()
    }

    /// Returns a new connection to it.
    ///
    /// # Panics
    ///
    /// If it can't be reached.
    pub async fn channel(&self) -> tonic::transport::Channel {
        raw::connect(&self.endpoint).await
    }

    /// Its metrics now.
    ///
    /// # Panics
    ///
    /// If it does not answer.
    pub async fn metrics(&self) -> Metrics {
        Metrics::fetch(self.admin_endpoint.trim_start_matches("http://")).await
    }

    /// Waits until gauges are zero, as [`Metrics::GAUGES`] are when every session is gone and has been cleaned up after.
    ///
    /// # Panics
    ///
    /// If `limit` passes first: with those that are not.
    pub async fn until_zero(
        &self,
        gauges: impl IntoIterator<Item = &'static str> + Clone,
        limit: Duration,
    ) {
        wait::until("every gauge to be zero", limit, || async {
            let metrics = self.metrics().await;
            let gauges = gauges.clone().into_iter();
            let left: Vec<_> = gauges
                .map(|name| (name, metrics.sum(name)))
                .filter(|(_, value)| *value != 0.0)
                .collect();
            if left.is_empty() { Ok(()) } else { Err(left) }
        })
        .await;
    }

    /// Returns whether it is ready to serve, or the reason why not.
    ///
    /// # Errors
    ///
    /// What `/readyz` answered.
    pub async fn readiness(&self) -> Result<(), String> {
        let address = self.admin_endpoint.trim_start_matches("http://");
        let answer = super::metrics::get(address, "/readyz").await;
        answer.map(drop).map_err(|error| error.to_string())
    }

    /// Does the same for a caller without a runtime, and over TLS with any certificate.
    fn readiness_blocking(&self) -> Result<String, String> {
        let Some(address) = self.admin_endpoint.strip_prefix("https://") else {
            let address = self.admin_endpoint.trim_start_matches("http://");
            let answer = super::metrics::get_blocking(address, "/readyz");
            return answer.map_err(|error| error.to_string());
        };
        let mut config = Config::default();
        config.admin_listen = address.parse().expect("it listens on an address");
        config.admin_tls = true;
        let probing = std::thread::spawn(move || probe(&config));
        probing.join().expect("a probe does not panic")
    }

    /// Returns the process.
    pub fn child(&mut self) -> &mut ChildProcess {
        &mut self.child
    }

    /// Returns the process's id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends it with SIGKILL.
    pub fn kill(&mut self) {
        self.child.kill();
    }

    /// Stops it with SIGSTOP.
    pub fn stop(&self) {
        self.child.stop();
    }

    /// Lets it go on after a stop.
    pub fn cont(&self) {
        self.child.cont();
    }

    /// Asks it with SIGTERM to end.
    pub fn terminate(&self) {
        self.child.terminate();
    }

    /// Returns its log so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for CoordinatorProcess {
    fn drop(&mut self) {
        if thread::panicking() {
            let log = self.log();
            let lines = log.lines().count();
            eprintln!("the last lines that the coordinator logged:");
            for line in log.lines().skip(lines.saturating_sub(40)) {
                eprintln!("  {line}");
            }
        }
    }
}
