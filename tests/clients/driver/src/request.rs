//! Requests of the runner. A field that a request does not have has its default.

use std::{path::PathBuf, time::Duration};

use serde::Deserialize;

/// One request, with the fields of all operations.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Request {
    pub(crate) id: u64,
    pub(crate) op: String,
    /// The name to give to what is made.
    #[serde(rename = "as")]
    pub(crate) name: String,
    /// The client.
    pub(crate) on: String,
    /// The handle.
    pub(crate) h: String,
    /// The id of another request.
    pub(crate) of: u64,

    pub(crate) endpoints: Vec<String>,
    pub(crate) client_name: Option<String>,
    pub(crate) ttl_ms: Option<u64>,
    pub(crate) grace_ms: Option<u64>,
    pub(crate) connect_timeout_ms: Option<u64>,
    pub(crate) backoff_min_ms: Option<u64>,
    pub(crate) backoff_max_ms: Option<u64>,
    pub(crate) tls: Option<Tls>,
    pub(crate) token_file: Option<PathBuf>,

    pub(crate) names: Vec<String>,
    pub(crate) mode: Option<String>,
    pub(crate) permits: Option<u32>,
    pub(crate) limit: Option<u32>,
    pub(crate) wait_ms: Option<u64>,
    pub(crate) value: Option<String>,
    pub(crate) lock_delay_ms: Option<u64>,
    pub(crate) actor: Option<String>,
    pub(crate) reentrant: bool,

    pub(crate) election: String,
    pub(crate) cleanup_ms: u64,
    pub(crate) message: String,
    pub(crate) ms: u64,
}

/// Files of a client that speaks TLS.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Tls {
    pub(crate) ca: Option<PathBuf>,
    pub(crate) cert: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
    pub(crate) server_name: Option<String>,
}

/// Returns the duration of so many milliseconds.
pub(crate) fn millis(count: Option<u64>) -> Option<Duration> {
    count.map(Duration::from_millis)
}
