//! Open files: each connection needs one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files beside connections of clients: listeners, connections to the store, files that are read.
const OTHERS: u64 = 128;

/// Raises this process's limit of open files to what the system lets it have, and tells if that is too few for so many
/// connections. Many systems give a process a thousand, and more to whoever asks.
pub fn allow_many_files(max_connections: usize) {
    let limits = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limits.maximum,
        maximum: limits.maximum,
    };
    let allowed = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limits.maximum,
        Err(error) => {
            tracing::debug!(%error, "failed to raise the limit of open files");
            limits.current
        }
    };
    let wanted = max_connections as u64 + OTHERS;
    if let Some(allowed) = allowed
        && allowed < wanted
    {
        tracing::warn!(
            allowed,
            wanted,
            "fewer files may be open than max-connections needs; raise the limit of open files (LimitNOFILE= in a systemd unit), or lower max-connections"
        );
    }
}
