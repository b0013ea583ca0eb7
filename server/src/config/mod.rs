//! The coordinator's configuration: one typed [`Config`], built from flags, environment, a TOML file and defaults, in
//! that order of precedence.
//!
//! Each setting has one name. `store-timeout` is the flag `--store-timeout`, the environment variable
//! `LEASEHOLD_STORE_TIMEOUT` and the key `store-timeout` of the file, and takes the same text in all three; the table in
//! `settings` is the one place that knows them, and what `--help` and the commented reference file `leasehold.toml` say
//! comes from it. Only these names are read from the environment: orchestrators put others there that begin alike. Of the rest
//! [`unknown_variables`] warns.

mod changes;
mod check;
mod cli;
mod environment;
mod error;
mod file;
mod origin;
mod permissions;
mod print;
mod settings;
mod share;
mod store_file;
mod store_url;
#[cfg(test)]
mod tests;
mod value;

use std::{net::SocketAddr, path::PathBuf, time::Duration};

pub use changes::Changes;
use leasehold_store::TlsFiles;

pub use cli::Action;
pub use environment::unknown_variables;
pub use error::{ConfigError, ConfigErrors};
pub use origin::Origin;
pub use share::Share;
pub use store_url::StoreUrl;

use crate::access::rules::Rule;

/// The commented reference file: every setting with its meaning and default. An empty file means the same.
pub const REFERENCE: &str = include_str!("../../leasehold.toml");

/// The coordinator's settings, checked. [`Config::from_args`] builds it; the meaning, bounds and default of each field
/// are also in `leasehold-server --help` and in `leasehold.toml`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// Address of the gRPC API; port 0 picks a free one. `127.0.0.1:7420` by default.
    pub listen: SocketAddr,
    /// Address of the admin HTTP port (metrics and probes); port 0 picks a free one. `127.0.0.1:7421` by default.
    pub admin_listen: SocketAddr,
    /// Consent to listening beyond loopback without encryption. Off by default.
    pub insecure: bool,
    /// The coordinator's certificate (PEM), which turns TLS on. None by default.
    pub tls_cert: Option<PathBuf>,
    /// Its private key (PEM). None by default.
    pub tls_key: Option<PathBuf>,
    /// Authorities (PEM) of the clients' certificates. None by default.
    pub tls_client_ca: Option<PathBuf>,
    /// Whether clients must have a certificate; see [`Config::client_auth`]. None by default.
    pub tls_client_auth: Option<ClientAuth>,
    /// Lists (PEM) of the clients' certificates that were revoked. None by default.
    pub tls_client_crl: Option<PathBuf>,
    /// Whether the admin port speaks TLS too. Off by default.
    pub admin_tls: bool,
    /// Hashes of the bearer tokens that callers may show. None by default.
    pub token_file: Option<PathBuf>,
    /// Public keys of whoever signs tokens (JWT) that callers may show. None by default.
    pub jwt_keys: Option<PathBuf>,
    /// The issuer that signed tokens must name.
    pub jwt_issuer: Option<String>,
    /// The audience that signed tokens must be for.
    pub jwt_audience: Option<String>,
    /// The claim of signed tokens that says who they stand for. `sub` by default.
    pub jwt_identity_claim: String,
    /// Who may do what: the tables `[[permission]]` of the file. None by default.
    pub permissions: Vec<Rule>,
    /// The coordinator's name; locks and sessions show it with what tells this start from others. The host's name by
    /// default.
    pub name: String,
    /// Where locks are kept. `memory:` by default.
    pub store: StoreUrl,
    /// The file that holds the store's URL, if it was not given itself; [`Self::store`] is what was read from it.
    pub store_file: Option<PathBuf>,
    /// Certificates (PEM) to trust for a store with TLS (`rediss`), instead of the system's.
    pub store_ca: Option<PathBuf>,
    /// The certificate (PEM) to show to a store with TLS. None by default.
    pub store_cert: Option<PathBuf>,
    /// Its private key (PEM). None by default.
    pub store_key: Option<PathBuf>,
    /// What the key of every lock begins with in Redis. `lock:` by default.
    pub key_prefix: String,
    /// Time within which the store must answer a command. 1 s by default.
    pub store_timeout: Duration,
    /// Whether to end at start if the store can't be reached. Off by default.
    pub require_store: bool,
    /// Connections to Redis for commands. 1 by default.
    pub store_connections: usize,
    /// Replicas of the Redis master that must have a grant or a renewal before it counts. 0 by default.
    pub min_replicas: u32,
    /// Time within which they must have it. 500 ms by default.
    pub replica_timeout: Duration,
    /// The shortest TTL that a client may ask for. 1 s by default.
    pub min_ttl: Duration,
    /// The TTL of who asks for none. 10 s by default.
    pub default_ttl: Duration,
    /// The longest TTL that a client may ask for. 1 h by default.
    pub max_ttl: Duration,
    /// The longest time that an acquire may ask to wait. 24 h by default.
    pub max_wait: Duration,
    /// Time that clients get to leave when the coordinator shuts down. 5 s by default.
    pub drain_timeout: Duration,
    /// Silence after which a connection is pinged. 5 s by default.
    pub keepalive_interval: Duration,
    /// Time in which a ping must be answered. 5 s by default.
    pub keepalive_timeout: Duration,
    /// Time within which a new connection must complete its HTTP/2 handshake. 5 s by default.
    pub handshake_timeout: Duration,
    /// Connections at the same time. 16384 by default.
    pub max_connections: usize,
    /// Sessions at the same time. 100000 by default.
    pub max_sessions: usize,
    /// Locks that one session may hold and wait for, together. 10000 by default.
    pub max_locks_per_session: usize,
    /// Connections of one address at the same time; 0 is any number. 0 by default.
    pub max_connections_per_address: usize,
    /// Sessions of one caller at the same time. 10000 by default.
    pub max_sessions_per_identity: usize,
    /// Names of one acquire. 64 by default.
    pub max_names_per_acquire: usize,
    /// Acquires that may wait for one name. 10000 by default.
    pub max_waiters_per_name: usize,
    /// Streams that watch locks or observe elections. 10000 by default.
    pub max_watchers: usize,
    /// Requests of one caller in a second; 0 is any number. 100000 by default.
    pub max_requests_per_second: u32,
    /// Calls without a valid identity of one address in a second; 0 is any number. 100 by default.
    pub max_failed_authentications_per_second: u32,
    /// Bytes of one message. 2 MiB by default.
    pub max_message_size: usize,
    /// Entries of one page of a listing. 1000 by default.
    pub max_page_size: usize,
    /// Calls in flight on one connection. 10000 by default.
    pub max_concurrent_streams: u32,
    /// Answers that are handed over for sending before a backlog begins. 16 by default.
    pub outbound_queue: usize,
    /// Whether deadlocks are found and ended. True by default.
    pub deadlock_detection: bool,
    /// Threads that serve clients. Half of the processors by default, at least one.
    pub worker_threads: usize,
    /// Whether times and sizes, and calls by method, are measured. True by default.
    pub metrics: bool,
    /// What is logged: directives of `tracing`'s `EnvFilter`. `info` by default.
    pub log: String,
    /// How log lines look. Human by default.
    pub log_format: LogFormat,
    /// Where traces are sent (OTLP over gRPC). Nowhere by default.
    pub otlp_endpoint: Option<String>,
    /// Of the requests whose callers do not decide, the share that is traced. One in a hundred by default.
    pub trace_sample: Share,
}

impl Config {
    /// Returns what locks and sessions show of this coordinator: its name, and what `run` tells of this start.
    pub(crate) fn shown_name(&self, run: &str) -> String {
        format!("{}-{run}", self.name)
    }

    /// Whether clients must have a certificate: as `tls-client-auth` says, and where it says nothing, they must if there is an
    /// authority for it.
    #[must_use]
    pub fn client_auth(&self) -> ClientAuth {
        match (self.tls_client_auth, &self.tls_client_ca) {
            (Some(auth), _) => auth,
            (None, Some(_)) => ClientAuth::Required,
            (None, None) => ClientAuth::None,
        }
    }
}

impl Config {
    /// Whether callers are asked who they are: there is something that they could show.
    #[must_use]
    pub const fn asks_who_calls(&self) -> bool {
        self.token_file.is_some() || self.jwt_keys.is_some() || self.tls_client_ca.is_some()
    }

    /// The files for connections to a store with TLS.
    #[must_use]
    pub fn store_tls(&self) -> TlsFiles {
        TlsFiles {
            ca: self.store_ca.clone(),
            identity: self.store_cert.clone().zip(self.store_key.clone()),
        }
    }
}

/// Whether clients must have a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAuth {
    /// They are asked for none.
    None,
    /// They may have one, and it must be good.
    Optional,
    /// They must have one.
    Required,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people, in colour on a terminal.
    #[default]
    Human,
    /// One JSON object a line.
    Json,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 7420)),
            admin_listen: SocketAddr::from(([127, 0, 0, 1], 7421)),
            insecure: false,
            tls_cert: None,
            tls_key: None,
            tls_client_ca: None,
            tls_client_auth: None,
            tls_client_crl: None,
            admin_tls: false,
            token_file: None,
            jwt_keys: None,
            jwt_issuer: None,
            jwt_audience: None,
            jwt_identity_claim: "sub".to_owned(),
            permissions: Vec::new(),
            name: host_name(),
            store: StoreUrl::default(),
            store_file: None,
            store_ca: None,
            store_cert: None,
            store_key: None,
            key_prefix: "lock:".to_owned(),
            store_timeout: Duration::from_secs(1),
            require_store: false,
            store_connections: 1,
            min_replicas: 0,
            replica_timeout: Duration::from_millis(500),
            min_ttl: Duration::from_secs(1),
            default_ttl: Duration::from_secs(10),
            max_ttl: Duration::from_secs(60 * 60),
            max_wait: Duration::from_secs(24 * 60 * 60),
            drain_timeout: Duration::from_secs(5),
            keepalive_interval: Duration::from_secs(5),
            keepalive_timeout: Duration::from_secs(5),
            handshake_timeout: Duration::from_secs(5),
            max_connections: 16_384,
            max_sessions: 100_000,
            max_locks_per_session: 10_000,
            max_connections_per_address: 0,
            max_sessions_per_identity: 10_000,
            max_names_per_acquire: 64,
            max_waiters_per_name: 10_000,
            max_watchers: 10_000,
            max_requests_per_second: 100_000,
            max_failed_authentications_per_second: 100,
            max_message_size: 2 * 1024 * 1024,
            max_page_size: 1000,
            max_concurrent_streams: 10_000,
            outbound_queue: 16,
            deadlock_detection: true,
            worker_threads: half_of_the_processors(),
            metrics: true,
            log: "info".to_owned(),
            log_format: LogFormat::Human,
            otlp_endpoint: None,
            trace_sample: Share::ONE_IN_A_HUNDRED,
        }
    }
}

/// The store, which is as busy as the coordinator, needs some too; and one thread serves several ten thousand locks a second.
fn half_of_the_processors() -> usize {
    std::thread::available_parallelism().map_or(1, |number| number.get().div_ceil(2))
}

fn host_name() -> String {
    let system = rustix::system::uname();
    let name = system.nodename().to_string_lossy();
    if value::display_name(&name).is_ok() {
        name.into_owned()
    } else {
        "leasehold".to_owned()
    }
}
