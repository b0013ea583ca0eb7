//! Real Redis servers.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use redis::{AsyncConnectionConfig, Client, Connection, aio::MultiplexedConnection};
use tempfile::TempDir;

use crate::{
    hosts::{Host, Network},
    ports::free_port,
    process::ChildProcess,
    wait,
};

/// A `redis-server` process on a port and in a directory of its own. Killed on drop.
#[derive(Debug)]
pub struct RedisServer {
    child: ChildProcess,
    directory: TempDir,
    port: u16,
    options: RedisOptions,
}

/// Options of a Redis server.
#[derive(Clone, Debug, Default)]
pub struct RedisOptions {
    append_only: bool,
    password: Option<String>,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    sentinel: Option<String>,
    /// The network on which each server gets a host of its own.
    network: Option<Network>,
    host: Option<Host>,
    /// The port of the cluster bus, where it is a node of one.
    bus: Option<u16>,
}

impl RedisOptions {
    /// Writes every command to disk before it is answered, so that a killed server comes back with everything.
    #[must_use]
    pub fn append_only(mut self) -> Self {
        self.append_only = true;
        self
    }

    /// Asks clients for a password.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// Passes further arguments, for example `["--maxmemory", "2mb"]`.
    #[must_use]
    pub fn arguments<'a>(mut self, arguments: impl IntoIterator<Item = &'a str>) -> Self {
        self.arguments
            .extend(arguments.into_iter().map(ToOwned::to_owned));
        self
    }

    /// Sets an environment variable, for example `LD_PRELOAD`.
    #[must_use]
    pub fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Makes it a sentinel with this configuration, which it goes on writing itself.
    #[must_use]
    pub fn sentinel(mut self, configuration: String) -> Self {
        self.sentinel = Some(configuration);
        self
    }

    /// Has each server that is started with these options run on a host of its own.
    #[must_use]
    pub fn network(mut self, network: Option<&Network>) -> Self {
        self.network = network.cloned();
        self
    }

    pub(crate) fn network_of(&self) -> Option<&Network> {
        self.network.as_ref()
    }

    fn address(&self) -> Ipv4Addr {
        let host = self.host.as_ref();
        host.map_or(Ipv4Addr::LOCALHOST, Host::address)
    }

    /// Makes it a node of a cluster.
    pub(crate) fn cluster_node(mut self) -> Self {
        self.bus = Some(free_port());
        self
    }

    /// Starts the server and waits until it answers.
    ///
    /// # Panics
    ///
    /// If it does not answer within ten seconds, or `redis-server` is not installed.
    pub fn start(mut self) -> RedisServer {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        self.host = self.network.as_ref().map(Network::host);
        if let Some(configuration) = &self.sentinel {
            std::fs::write(directory.path().join(SENTINEL_FILE), configuration)
                .expect("a file can be written");
        }
        loop {
            let port = free_port();
            if let Some(child) = launch(&self, &directory, port) {
                return RedisServer {
                    child,
                    directory,
                    port,
                    options: self,
                };
            }
            // It may have been the other port that was taken.
            self.bus = self.bus.map(|_| free_port());
        }
    }
}

/// The file of a sentinel's configuration.
const SENTINEL_FILE: &str = "sentinel.conf";

impl RedisServer {
    /// Starts a server that keeps nothing on disk.
    ///
    /// # Panics
    ///
    /// As [`RedisOptions::start`].
    pub fn start() -> Self {
        RedisOptions::default().start()
    }

    /// Begins a server that is configured otherwise.
    pub fn options() -> RedisOptions {
        RedisOptions::default()
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((self.options.address(), self.port))
    }

    /// Its URL, with the password where there is one.
    pub fn url(&self) -> String {
        self.url_through(self.address())
    }

    /// Its URL for a client that goes through a proxy at `address`.
    pub fn url_through(&self, address: SocketAddr) -> String {
        match &self.options.password {
            Some(password) => format!("redis://:{password}@{address}"),
            None => format!("redis://{address}"),
        }
    }

    /// Returns a client for it.
    ///
    /// # Panics
    ///
    /// Never: the URL is well-formed.
    pub fn client(&self) -> Client {
        Client::open(self.url()).expect("the URL is well-formed")
    }

    /// Returns a new blocking connection, with time-outs of five seconds.
    ///
    /// # Panics
    ///
    /// If the server can't be reached.
    pub fn connection(&self) -> Connection {
        let limit = Duration::from_secs(5);
        let connection = self
            .client()
            .get_connection_with_timeout(limit)
            .expect("the server can be reached");
        connection.set_read_timeout(Some(limit)).unwrap();
        connection
    }

    /// Returns a new asynchronous connection, with time-outs of five seconds.
    ///
    /// # Panics
    ///
    /// If the server can't be reached.
    pub async fn async_connection(&self) -> MultiplexedConnection {
        let limit = Some(Duration::from_secs(5));
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(limit)
            .set_response_timeout(limit);
        self.client()
            .get_multiplexed_async_connection_with_config(&config)
            .await
            .expect("the server can be reached")
    }

    /// Returns the host on which it runs, if it has one of its own.
    pub fn host(&self) -> Option<&Host> {
        self.options.host.as_ref()
    }

    /// Returns the port of its cluster bus; none outside a cluster.
    pub fn bus(&self) -> Option<u16> {
        self.options.bus
    }

    /// Returns the directory in which it runs and keeps its files.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Returns whether the process is there and not stopped.
    pub fn is_running(&self) -> bool {
        self.child.is_running()
    }

    /// Returns the process's id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends it with SIGKILL. What it keeps on disk stays there.
    pub fn kill(&mut self) {
        self.child.kill();
    }

    /// Starts it again, on the same port and in the same directory, after a kill.
    ///
    /// # Panics
    ///
    /// If it does not answer within ten seconds.
    pub fn restart(&mut self) {
        self.child.kill();
        self.child = launch(&self.options, &self.directory, self.port).unwrap_or_else(|| {
            panic!(
                "redis-server could not have its port {} again: something else took it",
                self.port
            )
        });
    }

    /// Stops it with SIGSTOP: connections stay open and nothing is answered.
    pub fn stop(&self) {
        self.child.stop();
    }

    /// Lets it go on after a stop.
    pub fn cont(&self) {
        self.child.cont();
    }
}

/// Starts a server and waits until it is this one that answers; none if its port was taken in the meantime.
fn launch(options: &RedisOptions, directory: &TempDir, port: u16) -> Option<ChildProcess> {
    let mut command = Command::new("redis-server");
    if options.sentinel.is_some() {
        command.args([SENTINEL_FILE, "--sentinel"]);
    }
    command
        .args(["--bind", &options.address().to_string(), "--save", ""])
        .args(["--logfile", "redis.log"])
        .args(["--port", &port.to_string()]);
    if options.append_only {
        command.args(["--appendonly", "yes", "--appendfsync", "always"]);
    }
    if let Some(password) = &options.password {
        command.args(["--requirepass", password]);
    }
    if let Some(bus) = options.bus {
        command
            .args(["--cluster-enabled", "yes"])
            .args(["--cluster-port", &bus.to_string()]);
    }
    command.args(&options.arguments);
    if let Some(host) = &options.host {
        // Its own network has nobody else in it.
        command.args(["--protected-mode", "no"]);
        command = host.command(&command);
    }
    command
        .current_dir(directory.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.envs(
        options
            .environment
            .iter()
            .map(|(name, value)| (name, value)),
    );
    assert!(
        Command::new("redis-server")
            .arg("--version")
            .stdout(Stdio::null())
            .status()
            .is_ok(),
        "failed to run redis-server: is it installed? On Debian: apt-get install redis-server"
    );
    let mut child = ChildProcess::spawn("redis-server", command);
    let address = SocketAddr::from((options.address(), port));
    let url = match &options.password {
        Some(password) => format!("redis://:{password}@{address}"),
        None => format!("redis://{address}"),
    };
    let client = Client::open(url).expect("the URL is well-formed");
    let id = child.id().to_string();
    wait::until_blocking("redis-server to answer", Duration::from_secs(10), || {
        if child.try_wait().is_some() {
            let log = std::fs::read_to_string(directory.path().join("redis.log"));
            let log = log.unwrap_or_default();
            assert!(
                log.contains("Address already in use"),
                "redis-server ended at its start:\n{log}"
            );
            return Ok(None);
        }
        // Somebody else's server may have had the port first, and would answer a PING as well.
        let info: String = client
            .get_connection_with_timeout(Duration::from_secs(1))
            .and_then(|mut connection| {
                redis::cmd("PING").query::<String>(&mut connection)?;
                redis::cmd("INFO").arg("server").query(&mut connection)
            })?;
        let expected = format!("process_id:{id}");
        if info.lines().any(|line| line.trim_end() == expected) {
            Ok(Some(()))
        } else {
            Err(redis::RedisError::from(std::io::Error::other(
                "another redis-server answers on this port",
            )))
        }
    })
    .map(|()| child)
}
