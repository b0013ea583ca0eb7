//! Table of all settings. An entry is the only place that knows its setting: see [`settings!`].

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use super::{
    ClientAuth, LogFormat, Origins, Share, StoreUrl,
    setting::{Shape, Value, first, last, settings},
    value::{
        address, boolean, choice, display_name, duration, endpoint, file, key_prefix, log_filter,
        not_empty, number, optional, some_origins,
    },
};
use crate::access::rules::Rule;

const MILLI: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// One setting.
pub(super) struct Setting {
    /// Its name: flag, key of the file and, in capitals, environment variable.
    pub(super) name: &'static str,
    pub(super) shape: Shape,
    /// Placeholder for its value in the help.
    pub(super) value_name: &'static str,
    /// The lines of its documentation, each after a space.
    pub(super) lines: &'static str,
    /// Reads a value. The error names the expected form.
    pub(super) set: fn(&mut Config, &str) -> Result<(), String>,
    /// Returns the value as text that `set` reads, secrets redacted, or `None` if there is none.
    pub(super) show: fn(&Config) -> Option<String>,
    /// Returns whether two configurations have the same value, secrets included.
    pub(super) is_same: fn(&Config, &Config) -> bool,
    /// Whether a running coordinator applies a change.
    pub(super) is_live: bool,
    /// A value for the reference file, if there is no default or the default depends on the host.
    pub(super) example: Option<&'static str>,
}

impl Setting {
    /// Returns its environment variable.
    pub(super) fn variable(&self) -> String {
        format!(
            "LEASEHOLD_{}",
            self.name.replace('-', "_").to_ascii_uppercase()
        )
    }

    /// Returns its meaning, unit and bounds, in sentences.
    pub(super) fn help(&self) -> &'static str {
        self.lines.trim_start()
    }

    /// Returns the first sentence of the help.
    pub(super) fn summary(&self) -> &'static str {
        let mut sentences = self.help().split_inclusive(". ");
        sentences.next().unwrap_or_default().trim_end()
    }
}

/// Returns the setting of this name.
pub(super) fn named(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name == name)
}

/// Most letters by which a misspelt name differs from a setting's.
const MOST_UNLIKE: usize = 3;

/// Returns the setting whose name is most like `name`, which is written as flags are, or `None` if no name is much like it.
pub(super) fn nearest(name: &str) -> Option<&'static str> {
    let most = (name.len() / 3).min(MOST_UNLIKE);
    let length = name.chars().count();
    // The time of a comparison grows with the length, which is a file's to choose.
    let similar = SETTINGS
        .iter()
        .filter(|setting| length.abs_diff(setting.name.len()) <= most);
    let all = similar.map(|setting| {
        let distance = strsim::damerau_levenshtein(name, setting.name);
        (distance, setting.name)
    });
    let (distance, nearest) = all.min()?;
    (distance <= most).then_some(nearest)
}

settings! {
    /// Address of the API, for gRPC, Connect, JSON over HTTP and gRPC-Web. Port 0 picks a free port, which the first line on stdout shows.
    "listen" listen: SocketAddr = SocketAddr::from(([127, 0, 0, 1], 7420)), address;

    /// Address of the admin HTTP port: the live page, /metrics, /livez, /readyz and /openapi.json. Port 0 picks a free port.
    "admin-listen" admin_listen: SocketAddr = SocketAddr::from(([127, 0, 0, 1], 7421)), address;

    /// Allow unencrypted ports that other machines can reach: the gRPC port without tls-cert, the admin port without admin-tls.
    /// By default, the coordinator refuses such an address.
    "insecure" insecure: bool = false, boolean;

    /// The coordinator's certificate (PEM), followed by any certificates between it and its authority. With it, the gRPC port
    /// accepts only TLS 1.2 and 1.3. The coordinator reads replaced files of certificates and keys again within seconds; open
    /// connections continue.
    "tls-cert" tls_cert: Option<PathBuf> = None, file("a certificate (PEM)"),
        example: "/etc/leasehold/server.pem", live: true;

    /// Private key (PEM, not encrypted) of tls-cert. Only the coordinator's user should be able to read it.
    "tls-key" tls_key: Option<PathBuf> = None, file("a private key (PEM)"),
        example: "/etc/leasehold/server.key", live: true;

    /// Authorities (PEM) of the certificates with which clients identify themselves. Without it, the coordinator asks clients for
    /// no certificate.
    "tls-client-ca" tls_client_ca: Option<PathBuf> = None, file("certificates (PEM)"),
        example: "/etc/leasehold/clients-ca.pem", live: true;

    /// Rule for client certificates. With required, the default if tls-client-ca is set, a client without a certificate of
    /// tls-client-ca fails its handshake; with optional, it connects. An expired or revoked certificate, or one of another
    /// authority, fails either way. With none, which excludes tls-client-ca, the coordinator asks for no certificate.
    "tls-client-auth" tls_client_auth: Option<ClientAuth> = None, optional(choice),
        example: "optional", live: true;

    /// Lists (PEM) of revoked client certificates, one for each authority of tls-client-ca. The coordinator refuses certificates of
    /// an authority without a list. A list stays in force until it is replaced, even beyond the date of its next update.
    "tls-client-crl" tls_client_crl: Option<PathBuf> = None, file("revocation lists (PEM)"),
        example: "/etc/leasehold/clients-crl.pem", live: true;

    /// Origins of web pages that may call the API from a browser (scheme, host and port), separated by commas; or * for all.
    /// By default none may but the live page: a request with another origin than these is refused. A page needs a permission like
    /// every caller.
    "cors-origins" cors_origins: Option<Origins> = None, optional(str::parse),
        example: "https://app.example", live: true;

    /// Use HTTPS on the admin port, with the certificate tls-cert. The port asks clients for no certificate.
    "admin-tls" admin_tls: bool = false, boolean;

    /// Serve the live page for operators on the admin port. It calls the API from the browser, with the token that its user enters.
    "page" page: bool = true, boolean;

    /// API addresses of coordinators that the live page calls, as browsers reach them (scheme, host and port), separated by commas. By
    /// default, the page calls this coordinator's API port on the host that the browser reached the admin port by.
    "page-coordinators" page_coordinators: Option<Origins> = None, optional(some_origins),
        value: "URLS", example: "https://locks-1.example:7420,https://locks-2.example:7420";

    /// File with the hashes of accepted bearer tokens: one line NAME sha256:HEX for each, optionally followed by
    /// expires=2030-01-31T12:00:00Z; # begins a comment. `leasehold-server new-token NAME` makes a token and its line. The token's
    /// identity is token:NAME. The coordinator reads the file again when it changes.
    "token-file" token_file: Option<PathBuf> = None, file("hashes of tokens"),
        example: "/etc/leasehold/tokens", live: true;

    /// File with the public keys of the issuer of accepted signed tokens (JWT): a JWKS, or one key (PEM); RSA, EC (P-256, P-384) or
    /// Ed25519. Needs jwt-issuer and jwt-audience. The identity is jwt:SUBJECT. The coordinator reads the file again when it
    /// changes.
    "jwt-keys" jwt_keys: Option<PathBuf> = None, file("public keys (JWKS or PEM)"),
        example: "/etc/leasehold/jwks.json", live: true;

    /// Issuer (iss) that signed tokens must name.
    "jwt-issuer" jwt_issuer: Option<String> = None, optional(not_empty),
        example: "https://accounts.example", live: true;

    /// Audience (aud) that signed tokens must name.
    "jwt-audience" jwt_audience: Option<String> = None, optional(not_empty),
        example: "leasehold", live: true;

    /// Claim of signed tokens that names the subject.
    "jwt-identity-claim" jwt_identity_claim: String = "sub".to_owned(), not_empty, live: true;

    /// The coordinator's name: 1 to 128 bytes, by default the host's name. Locks and sessions show it followed by a hyphen and
    /// eight random characters, which differ at each start.
    "name" name: String = host_name(), display_name, value: "NAME", example: "coordinator-1";

    /// URL of the store that keeps the locks: memory: (this process, for one coordinator),
    /// redis://USER:PASSWORD@HOST:PORT/DATABASE, redis+sentinel://USER:PASSWORD@HOST:PORT,HOST:PORT/MASTER-NAME/DATABASE with a
    /// list of sentinels, which may be followed by ?sentinel-user=…&sentinel-password=…,
    /// redis+cluster://USER:PASSWORD@HOST:PORT,HOST:PORT with some nodes of a cluster, or
    /// redis+quorum://USER:PASSWORD@HOST:PORT,HOST:PORT,HOST:PORT/DATABASE for several independent masters, with ?durable=true
    /// if they write everything to disk before they answer; with rediss in place of redis for TLS. A password is safer in the
    /// environment than in a flag, which every user of the machine can see.
    "store" store: StoreUrl = StoreUrl::default(), StoreUrl::parse;

    /// File with the store's URL and nothing else, in place of store. Use it for a URL with a password. If both are set, the
    /// setting of the stronger layer wins; one layer may set only one of them.
    "store-file" store_file: Option<PathBuf> = None, file("the store's URL"),
        example: "/etc/leasehold/store-url";

    /// Certificates (PEM) to trust for a store with TLS (rediss), instead of the system's. The coordinator reads replaced files
    /// for the store again for its next connection.
    "store-ca" store_ca: Option<PathBuf> = None, file("certificates (PEM)"),
        example: "/etc/leasehold/redis-ca.pem";

    /// Certificate (PEM) for a store with TLS (rediss) that asks for one, followed by any certificates between it and its
    /// authority.
    "store-cert" store_cert: Option<PathBuf> = None, file("a certificate (PEM)"),
        example: "/etc/leasehold/redis-client.pem";

    /// Private key (PEM, not encrypted) of store-cert.
    "store-key" store_key: Option<PathBuf> = None, file("a private key (PEM)"),
        example: "/etc/leasehold/redis-client.key";

    /// Prefix of the key of every lock in Redis: at most 128 bytes, and not "lh:". Coordinators that serve the same locks need
    /// the same prefix. Leasehold and an application that locks the same keys by SET NX PX exclude each other.
    "key-prefix" key_prefix: String = "lock:".to_owned(), key_prefix;

    /// Time within which the store must answer a command: 10ms to 1m. The coordinator replaces a connection that misses it
    /// repeatedly. Each of several independent masters has this time.
    "store-timeout" store_timeout: Duration = SECOND, duration(MILLI * 10, MINUTE);

    /// Exit with an error at start if the store is not reached within ten store-timeouts. By default, the coordinator serves,
    /// reports that it is not ready, and keeps trying.
    "require-store" require_store: bool = false, boolean;

    /// Connections to Redis for commands: 1 to 64. Subscriptions use one more. One connection has the highest throughput,
    /// because commands in flight share messages. Each of several independent masters has one.
    "store-connections" store_connections: usize = 1, number(1, 64);

    /// Replicas of the Redis master that must acknowledge a grant or a renewal before it counts: 0 to 16. Set it to the number
    /// of replicas that can be promoted: then no fail-over grants a lock twice. With fewer replicas in step, the coordinator
    /// grants nothing.
    "min-replicas" min_replicas: u32 = 0, number(0, 16);

    /// Time within which min-replicas must acknowledge a grant: 1ms to 1s. The coordinator takes a later grant back and refuses
    /// it.
    "replica-timeout" replica_timeout: Duration = MILLI * 500, duration(MILLI, SECOND);

    /// Shortest TTL that a client may specify: 100ms to 24h.
    "min-ttl" min_ttl: Duration = SECOND, duration(MILLI * 100, DAY);

    /// TTL used when the client specifies none: between min-ttl and max-ttl.
    "default-ttl" default_ttl: Duration = SECOND * 10, duration(MILLI * 100, DAY);

    /// Longest TTL that a client may specify: 100ms to 24h. Coordinators of several independent masters must have the same.
    "max-ttl" max_ttl: Duration = HOUR, duration(MILLI * 100, DAY);

    /// Longest time that an acquire may wait: 1ms to 365d.
    "max-wait" max_wait: Duration = DAY, duration(MILLI, DAY * 365);

    /// Time for clients to leave when the coordinator shuts down: 1ms to 1h.
    "drain-timeout" drain_timeout: Duration = SECOND * 5, duration(MILLI, HOUR), live: true;

    /// Age at which a session is asked to move to another coordinator, of those that its client knows: 1s to 365d. Clients choose at random,
    /// so that sessions spread anew after restarts, and when a coordinator is added. A session is asked between three and five
    /// quarters of this after it was opened, and loses nothing by moving. By default, none is asked.
    "max-session-age" max_session_age: Option<Duration> = None, optional(duration(SECOND, DAY * 365)),
        example: "1h", live: true;

    /// Bytes of requests on one stream after which a session is asked to move to another stream: 65536 to 1073741824. Proxies bound the
    /// body of a request, which a stream is to them, and end it there, with all locks of the session. It is at most half of that bound,
    /// which is a mebibyte in nginx unless client_max_body_size says otherwise. Requests count as in protobuf, also those in JSON.
    "max-stream-size" max_stream_size: usize = 524_288, number(65_536, 1 << 30), live: true;

    /// Silence on a connection after which the coordinator pings the client: 100ms to 1h.
    "keepalive-interval" keepalive_interval: Duration = SECOND * 5, duration(MILLI * 100, HOUR);

    /// Further silence after which the coordinator closes the connection: 100ms to 1h. While a session is on the connection that has a
    /// longer TTL than this and keepalive-interval together, it may be silent for its TTL. It
    /// closes an HTTP/1 connection once no call was in flight, and no answer read, for keepalive-interval and this together.
    "keepalive-timeout" keepalive_timeout: Duration = SECOND * 5, duration(MILLI * 100, HOUR);

    /// Time for a new connection to complete its HTTP/2 handshake or its first HTTP/1 request, for a new stream to be opened, and for the message of a call to
    /// be complete: 10ms to 1h.
    "handshake-timeout" handshake_timeout: Duration = SECOND * 5, duration(MILLI * 10, HOUR);

    /// Connections at the same time: 1 to 1000000. The coordinator closes further ones at once. Each needs a file descriptor.
    "max-connections" max_connections: usize = 16_384, number(1, 1_000_000), live: true;

    /// Connections of one address at the same time: 1 to 1000000, or 0 for any number. The coordinator closes further ones at once.
    /// Clients behind one proxy or address translation share its address.
    "max-connections-per-address" max_connections_per_address: usize = 0, number(0, 1_000_000), live: true;

    /// Sessions at the same time: 1 to 10000000.
    "max-sessions" max_sessions: usize = 100_000, number(1, 10_000_000), live: true;

    /// Sessions of one identity at the same time, or of one address if callers show no identity: 1 to 10000000.
    "max-sessions-per-identity" max_sessions_per_identity: usize = 10_000, number(1, 10_000_000), live: true;

    /// Locks that one session may hold and wait for, together: 1 to 10000000.
    "max-locks-per-session" max_locks_per_session: usize = 10_000, number(1, 10_000_000), live: true;

    /// Names in one acquire: 1 to 1000.
    "max-names-per-acquire" max_names_per_acquire: usize = 64, number(1, 1000), live: true;

    /// Acquires that may wait for one name at this coordinator: 1 to 10000000.
    "max-waiters-per-name" max_waiters_per_name: usize = 10_000, number(1, 10_000_000), live: true;

    /// Streams that watch locks or observe elections at the same time: 1 to 1000000. The coordinator sends each event to every
    /// stream that it concerns.
    "max-watchers" max_watchers: usize = 10_000, number(1, 1_000_000), live: true;

    /// Streams of one identity that watch locks or observe elections at the same time, or of one address if callers show no identity: 1
    /// to 1000000.
    "max-watchers-per-identity" max_watchers_per_identity: usize = 1000, number(1, 1_000_000), live: true;

    /// Requests per second of one identity, or of one address if callers show no identity: calls, opened streams, and requests
    /// on sessions. A burst may have the same number. Heartbeats, renewals, releases, cancels and closes do not count and are
    /// never refused. 1 to 1000000000, or 0 for any number.
    "max-requests-per-second" max_requests_per_second: u32 = 100_000, number(0, 1_000_000_000), live: true;

    /// Calls per second from one address, or one IPv6 network (/64), without a valid identity where the coordinator asks for
    /// one. A burst may have the same number. The coordinator refuses further ones without checking signatures, but admits
    /// callers whose identity it has verified before. 1 to 1000000, or 0 for any number.
    "max-failed-authentications-per-second" max_failed_authentications_per_second: u32 = 100, number(0, 1_000_000), live: true;

    /// Bytes of one message of a client: 65536 to 67108864. The largest messages that clients send, which resume a session, have at
    /// most 1 MiB. A change needs a restart.
    "max-message-size" max_message_size: usize = 2 * 1024 * 1024, number(65_536, 67_108_864);

    /// Entries in one page of a listing: 1 to 10000.
    "max-page-size" max_page_size: usize = 1000, number(1, 10_000), live: true;

    /// Calls in flight on one connection: 1 to 1000000.
    "max-concurrent-streams" max_concurrent_streams: u32 = 10_000, number(1, 1_000_000);

    /// Answers handed over for sending before a backlog begins: 8 to 1000000. The coordinator disconnects a client that reads
    /// no answer for the time of keepalive-timeout.
    "outbound-queue" outbound_queue: usize = 16, number(8, 1_000_000);

    /// Find and end deadlocks among the actors of sessions, about a second after they close. For this, the coordinator reads
    /// locks only while an actor that holds something waits.
    "deadlock-detection" deadlock_detection: bool = true, boolean;

    /// Threads that serve clients: 1 to 1024, by default half of the processors. Redis carries out commands one by one, so a
    /// single thread often keeps up with it, and has the lowest latency.
    "worker-threads" worker_threads: usize = half_of_the_processors(), number(1, 1024), example: "1";

    /// Measure durations, sizes of batches, and calls by method. Without it, /metrics shows only levels and plain counts; all
    /// other metrics stay at zero.
    "metrics" metrics: bool = true, boolean;

    /// Level of the log on stderr: error, warn, info, debug, trace or off, or directives such as "info,leasehold_server=debug".
    "log" log: String = "info".to_owned(), log_filter, value: "DIRECTIVES", live: true;

    /// Format of log lines: human (in colour on a terminal) or json (one object a line).
    "log-format" log_format: LogFormat = LogFormat::Human, choice;

    /// File to which the coordinator appends the audit log: a line of JSON for each grant and its end, and for each denied attempt;
    /// - is standard output. Without it, there is none. If the file is moved, the coordinator begins another one within a second.
    /// While it can't be written, its lines are lost, and locks go on.
    "audit-log" audit_log: Option<PathBuf> = None, file("the audit log"),
        example: "/var/log/leasehold/audit.log";

    /// gRPC port of the OpenTelemetry collector that receives traces: http://HOST:4317, or https://HOST:4317 for TLS with the
    /// system's certificates. Without it, the coordinator traces nothing. OTEL_EXPORTER_OTLP_HEADERS has headers for the
    /// collector.
    "otlp-endpoint" otlp_endpoint: Option<String> = None, optional(endpoint),
        value: "URL", example: "http://127.0.0.1:4317";

    /// Share of requests that is traced, from 0 to 1. A caller that sends its own context (traceparent) decides for its requests.
    "trace-sample" trace_sample: Share = Share::ONE_IN_A_HUNDRED, str::parse, live: true;
}

/// Returns half of the processors, at least one. The store, which is as busy as the coordinator, needs the rest, and one thread
/// serves several ten thousand locks a second.
fn half_of_the_processors() -> usize {
    std::thread::available_parallelism().map_or(1, |number| number.get().div_ceil(2))
}

/// Returns the host's name, or `leasehold` if that is no name for a coordinator.
fn host_name() -> String {
    let system = rustix::system::uname();
    display_name(&system.nodename().to_string_lossy()).unwrap_or_else(|_| "leasehold".to_owned())
}
