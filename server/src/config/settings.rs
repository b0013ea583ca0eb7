//! The table of settings: name, meaning, how to read and how to show each.

mod access;
mod limits;
mod paths;
mod telemetry;

use std::time::Duration;

use super::{
    Config, LogFormat, StoreUrl,
    value::{
        address, boolean, display_name, duration, key_prefix, log_filter, log_format, number,
        show_duration,
    },
};

/// The TOML type of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Text,
    Number,
    /// From 0 to 1.
    Fraction,
    Boolean,
}

/// One setting.
pub(super) struct Setting {
    /// Its name: flag, key of the file and, in capitals, environment variable.
    pub(super) name: &'static str,
    pub(super) shape: Shape,
    /// What stands for its value in the help.
    pub(super) value_name: &'static str,
    /// Meaning, unit and bounds, in sentences.
    pub(super) help: &'static str,
    /// Reads a value; the error says what was expected.
    pub(super) set: fn(&mut Config, &str) -> Result<(), String>,
    /// The value as text that `set` reads, secrets redacted; `None` when there is none.
    pub(super) show: fn(&Config) -> Option<String>,
    /// Shown in the place of a default that there is not, or that differs from host to host.
    pub(super) example: Option<&'static str>,
}

impl Setting {
    /// The environment variable.
    pub(super) fn variable(&self) -> String {
        format!(
            "LEASEHOLD_{}",
            self.name.replace('-', "_").to_ascii_uppercase()
        )
    }
}

fn put<T>(place: &mut T, value: Result<T, String>) -> Result<(), String> {
    *place = value?;
    Ok(())
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A setting that holds a duration, with its bounds.
macro_rules! a_duration {
    ($name:literal, $field:ident, $min:expr, $max:expr, $help:literal) => {
        Setting {
            name: $name,
            shape: Shape::Text,
            value_name: "DURATION",
            help: $help,
            set: |config, text| put(&mut config.$field, duration(text, &($min..=$max))),
            show: |config| Some(show_duration(config.$field)),
            example: None,
        }
    };
}

/// A setting that holds a whole number, with its bounds.
macro_rules! a_number {
    ($name:literal, $field:ident, $min:literal, $max:literal, $help:literal) => {
        Setting {
            name: $name,
            shape: Shape::Number,
            value_name: "NUMBER",
            help: $help,
            set: |config, text| put(&mut config.$field, number(text, &($min..=$max))),
            show: |config| Some(config.$field.to_string()),
            example: None,
        }
    };
}
use a_number;

/// Every setting, in the order of the help and of the reference file.
pub(super) static SETTINGS: &[Setting] = &[
    Setting {
        name: "listen",
        shape: Shape::Text,
        value_name: "ADDRESS",
        help: "Address of the gRPC API. Port 0 picks a free one, which the first line on stdout tells.",
        set: |config, text| put(&mut config.listen, address(text)),
        show: |config| Some(config.listen.to_string()),
        example: None,
    },
    Setting {
        name: "admin-listen",
        shape: Shape::Text,
        value_name: "ADDRESS",
        help: "Address of the admin HTTP port: /metrics, /livez and /readyz. Port 0 picks a free one.",
        set: |config, text| put(&mut config.admin_listen, address(text)),
        show: |config| Some(config.admin_listen.to_string()),
        example: None,
    },
    Setting {
        name: "insecure",
        shape: Shape::Boolean,
        value_name: "true|false",
        help: "Allow a port that other machines can reach although nothing on it is encrypted: the gRPC port without tls-cert, \
               the admin port without admin-tls. Without it, such an address is refused.",
        set: |config, text| put(&mut config.insecure, boolean(text)),
        show: |config| Some(config.insecure.to_string()),
        example: None,
    },
    paths::TLS_CERT,
    paths::TLS_KEY,
    paths::TLS_CLIENT_CA,
    paths::TLS_CLIENT_AUTH,
    paths::TLS_CLIENT_CRL,
    paths::ADMIN_TLS,
    access::TOKEN_FILE,
    access::JWT_KEYS,
    access::JWT_ISSUER,
    access::JWT_AUDIENCE,
    access::JWT_IDENTITY_CLAIM,
    Setting {
        name: "name",
        shape: Shape::Text,
        value_name: "NAME",
        help: "The coordinator's name: 1 to 128 bytes. Locks and sessions show it followed by a hyphen and eight characters \
               that each start draws. The host's name by default.",
        set: |config, text| put(&mut config.name, display_name(text)),
        show: |config| Some(config.name.clone()),
        example: Some("coordinator-1"),
    },
    Setting {
        name: "store",
        shape: Shape::Text,
        value_name: "URL",
        help: "Where locks are kept: memory: (this process, for one coordinator), redis://USER:PASSWORD@HOST:PORT/DATABASE, \
               redis+sentinel://USER:PASSWORD@HOST:PORT,HOST:PORT/MASTER-NAME/DATABASE with a list of sentinels, which \
               may be followed by ?sentinel-user=…&sentinel-password=…, redis+cluster://USER:PASSWORD@HOST:PORT,HOST:PORT with \
               some of a cluster's nodes, or redis+quorum://USER:PASSWORD@HOST:PORT,HOST:PORT,HOST:PORT/DATABASE for several \
               independent masters, with ?durable=true if they write everything to disk before they answer; with rediss in \
               place of redis for TLS. A password is safer in the environment than in a flag, which every user of the \
               machine can see.",
        set: |config, text| put(&mut config.store, StoreUrl::parse(text)),
        show: |config| Some(config.store.to_string()),
        example: None,
    },
    paths::STORE_FILE,
    paths::STORE_CA,
    paths::STORE_CERT,
    paths::STORE_KEY,
    Setting {
        name: "key-prefix",
        shape: Shape::Text,
        value_name: "TEXT",
        help: "What the key of every lock begins with in Redis: at most 128 bytes, and not \"lh:\". Coordinators that serve \
               the same locks need the same one; an application that locks by SET NX PX on such keys and Leasehold exclude \
               each other.",
        set: |config, text| put(&mut config.key_prefix, key_prefix(text)),
        show: |config| Some(config.key_prefix.clone()),
        example: None,
    },
    a_duration!(
        "store-timeout",
        store_timeout,
        millis(10),
        Duration::from_secs(60),
        "Time within which the store must answer a command: 10ms to 1m. A connection that misses it repeatedly is dialled \
         anew. Of several independent masters each has this time."
    ),
    Setting {
        name: "require-store",
        shape: Shape::Boolean,
        value_name: "true|false",
        help: "End with an error at start if the store is not reached within ten store-timeouts. Without it, the coordinator \
               serves all the same, says that it is not ready, and goes on trying.",
        set: |config, text| put(&mut config.require_store, boolean(text)),
        show: |config| Some(config.require_store.to_string()),
        example: None,
    },
    a_number!(
        "store-connections",
        store_connections,
        1,
        64,
        "Connections to Redis for commands: 1 to 64. One more is used for subscriptions. One carries the most: what is in \
         flight goes together, and Redis is read from less often. Of several independent masters each has one."
    ),
    a_number!(
        "min-replicas",
        min_replicas,
        0,
        16,
        "Replicas of the Redis master that must have a grant or a renewal before it counts: 0 to 16. Only as many as can be \
         promoted rule out that a fail-over doubles a grant. With fewer in step than this, nothing is granted."
    ),
    a_duration!(
        "replica-timeout",
        replica_timeout,
        millis(1),
        Duration::from_secs(1),
        "Time within which min-replicas must have it: 1ms to 1s. A grant that they have not is taken back and refused."
    ),
    a_duration!(
        "min-ttl",
        min_ttl,
        millis(100),
        DAY,
        "The shortest TTL that a client may ask for: 100ms to 24h."
    ),
    a_duration!(
        "default-ttl",
        default_ttl,
        millis(100),
        DAY,
        "The TTL of who asks for none: between min-ttl and max-ttl."
    ),
    a_duration!(
        "max-ttl",
        max_ttl,
        millis(100),
        DAY,
        "The longest TTL that a client may ask for: 100ms to 24h. Coordinators of several independent masters must have the \
         same."
    ),
    a_duration!(
        "max-wait",
        max_wait,
        millis(1),
        DAY * 365,
        "The longest time that an acquire may ask to wait: 1ms to 365d."
    ),
    a_duration!(
        "drain-timeout",
        drain_timeout,
        millis(1),
        HOUR,
        "Time that clients get to leave when the coordinator shuts down: 1ms to 1h."
    ),
    a_duration!(
        "keepalive-interval",
        keepalive_interval,
        millis(100),
        HOUR,
        "Silence on a connection after which the client is pinged: 100ms to 1h."
    ),
    a_duration!(
        "keepalive-timeout",
        keepalive_timeout,
        millis(100),
        HOUR,
        "Further silence after which the connection is closed: 100ms to 1h. Locks then stay until their TTL has passed."
    ),
    a_duration!(
        "handshake-timeout",
        handshake_timeout,
        millis(10),
        HOUR,
        "Time within which a new connection must complete its HTTP/2 handshake, a new stream be opened, and the message of a \
         call be complete: 10ms to 1h."
    ),
    a_number!(
        "max-connections",
        max_connections,
        1,
        1_000_000,
        "Connections at the same time: 1 to 1000000. Further ones are closed at once. Each needs a file descriptor."
    ),
    limits::MAX_CONNECTIONS_PER_ADDRESS,
    a_number!(
        "max-sessions",
        max_sessions,
        1,
        10_000_000,
        "Sessions at the same time: 1 to 10000000."
    ),
    limits::MAX_SESSIONS_PER_IDENTITY,
    a_number!(
        "max-locks-per-session",
        max_locks_per_session,
        1,
        10_000_000,
        "Locks that one session may hold and wait for, together: 1 to 10000000."
    ),
    limits::MAX_NAMES_PER_ACQUIRE,
    limits::MAX_WAITERS_PER_NAME,
    limits::MAX_WATCHERS,
    limits::MAX_REQUESTS_PER_SECOND,
    limits::MAX_FAILED_AUTHENTICATIONS_PER_SECOND,
    limits::MAX_MESSAGE_SIZE,
    limits::MAX_PAGE_SIZE,
    a_number!(
        "max-concurrent-streams",
        max_concurrent_streams,
        1,
        1_000_000,
        "Calls in flight on one connection: 1 to 1000000."
    ),
    a_number!(
        "outbound-queue",
        outbound_queue,
        8,
        1_000_000,
        "Answers handed over for sending before a backlog begins: 8 to 1000000. A client that takes none of its answers for keepalive-timeout is cut off."
    ),
    Setting {
        name: "deadlock-detection",
        shape: Shape::Boolean,
        value_name: "true|false",
        help: "Whether deadlocks among the actors of sessions are found and ended, about a second after they close. Looks at \
               locks only while an actor waits that holds something.",
        set: |config, text| put(&mut config.deadlock_detection, boolean(text)),
        show: |config| Some(config.deadlock_detection.to_string()),
        example: None,
    },
    Setting {
        name: "worker-threads",
        shape: Shape::Number,
        value_name: "NUMBER",
        help: "Threads that serve clients: 1 to 1024. Half of the processors by default, at least one; as Redis carries \
               commands out one by one, a single thread often keeps up with it, and alone it answers soonest.",
        set: |config, text| put(&mut config.worker_threads, number(text, &(1..=1024))),
        show: |config| Some(config.worker_threads.to_string()),
        example: Some("1"),
    },
    Setting {
        name: "metrics",
        shape: Shape::Boolean,
        value_name: "true|false",
        help: "Measure how long things take, how large batches are, and calls by method. Without it, /metrics shows levels and \
               plain counts alone, and the rest stays at zero.",
        set: |config, text| put(&mut config.metrics, boolean(text)),
        show: |config| Some(config.metrics.to_string()),
        example: None,
    },
    Setting {
        name: "log",
        shape: Shape::Text,
        value_name: "DIRECTIVES",
        help: "What is logged, to stderr: error, warn, info, debug, trace or off, or directives such as \
               \"info,leasehold_server=debug\".",
        set: |config, text| put(&mut config.log, log_filter(text)),
        show: |config| Some(config.log.clone()),
        example: None,
    },
    Setting {
        name: "log-format",
        shape: Shape::Text,
        value_name: "human|json",
        help: "How log lines look: human (in colour on a terminal) or json (one object a line).",
        set: |config, text| put(&mut config.log_format, log_format(text)),
        show: |config| {
            Some(
                match config.log_format {
                    LogFormat::Human => "human",
                    LogFormat::Json => "json",
                }
                .to_owned(),
            )
        },
        example: None,
    },
    telemetry::OTLP_ENDPOINT,
    telemetry::TRACE_SAMPLE,
];

/// The place of a setting in the table.
pub(super) fn position(name: &str) -> Option<usize> {
    SETTINGS.iter().position(|setting| setting.name == name)
}

/// Returns the setting whose name is most like `name`, which is written as flags are; none where no name is much like it.
pub(super) fn nearest(name: &str) -> Option<&'static str> {
    let all = SETTINGS.iter().map(|setting| {
        let distance = strsim::damerau_levenshtein(name, setting.name);
        (distance, setting.name)
    });
    let (distance, nearest) = all.min()?;
    (distance <= (name.len() / 3).min(3)).then_some(nearest)
}
