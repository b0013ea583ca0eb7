//! Losses that a coordinator counted, read from its log.

use std::time::SystemTime;

use leasehold_server::telemetry::LOST_LOCK;

/// A loss that was counted in `leasehold_lost_total`.
#[derive(Debug)]
pub(crate) struct Loss {
    pub(crate) at: SystemTime,
    pub(crate) lock: String,
    /// None if the coordinator does not know it any more.
    pub(crate) client: Option<String>,
    pub(crate) reason: String,
}

impl Loss {
    /// Reads a line of the log; returns `None` if it tells of something else. Names in this run have neither spaces nor quotes.
    pub(crate) fn read(line: &str) -> Option<Self> {
        let (head, fields) = line.split_once(LOST_LOCK)?;
        let field = |name: &str| {
            let mut all = fields.split(' ').filter_map(|field| field.split_once('='));
            let found = all.find(|(it, _)| *it == name);
            found.map(|(_, value)| value.trim_matches('"').to_owned())
        };
        let at = head.split(' ').next()?;
        Some(Self {
            at: humantime::parse_rfc3339(at).ok()?,
            lock: field("lock")?,
            client: field("client"),
            reason: field("reason")?,
        })
    }
}
