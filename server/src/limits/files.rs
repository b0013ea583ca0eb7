//! Limit of open files: each connection needs one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Open files other than connections of clients: listeners, probes and scrapers, connections to the store, files that are read.
const OTHERS: u64 = 128;

/// Most open files on Apple systems for a process that does not ask the kernel for its own bound.
const OPEN_MAX: u64 = 10_240;

/// Returns how many connections of clients to accept at a time: so many, or as many as there may be files open without those that probes,
/// metrics and the store need. A coordinator without a free file could not even say that it lives.
pub fn most_connections(max_connections: usize) -> usize {
    let allowed = getrlimit(Resource::Nofile).current;
    let room = allowed.map(|allowed| allowed - OTHERS.min(allowed / 2));
    let room = room.and_then(|room| usize::try_from(room).ok());
    room.map_or(max_connections, |room| room.min(max_connections))
}

/// Raises this process's limit of open files as far as the system permits, and logs if that is too few for so many
/// connections. Many systems give a process a thousand by default, and more on request.
pub fn allow_many_files(max_connections: usize) {
    let limits = getrlimit(Resource::Nofile);
    let wanted = max_connections as u64 + OTHERS;
    // Apple systems report "unlimited", but refuse more than their kernel can have open.
    let attempts = [limits.maximum, Some(wanted), Some(OPEN_MAX)];
    let raises = |current: &Option<u64>| match (current, limits.current) {
        (Some(new), Some(now)) => *new > now,
        (None, now) => now.is_some(),
        (Some(_), None) => false,
    };
    let raised = attempts.into_iter().filter(raises).find(|current| {
        let limits = Rlimit {
            current: *current,
            maximum: limits.maximum,
        };
        let set = setrlimit(Resource::Nofile, limits);
        set.inspect_err(|error| {
            tracing::debug!(%error, limit = ?current, "failed to raise the limit of open files");
        })
        .is_ok()
    });
    let allowed = raised.unwrap_or(limits.current);
    if let Some(allowed) = allowed
        && allowed < wanted
    {
        tracing::warn!(
            allowed,
            wanted,
            connections = most_connections(max_connections),
            "fewer files may be open than max-connections needs, so that fewer connections are accepted; raise the limit of open files (LimitNOFILE= in a systemd unit), or lower max-connections"
        );
    }
}
