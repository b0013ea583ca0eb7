//! Options of `history`, and their help.

use std::{
    path::PathBuf,
    time::{Duration, SystemTime},
};

use crate::duration::duration;

pub(crate) const HELP: &str = "\
Reads the audit logs that coordinators write with their setting audit-log, and needs no coordinator.
Give the logs of all coordinators that served the lock: a hold that moved to another one has its end
in that one's log. For each file, its rotated ones are read, too: FILE.1, FILE.2.gz, FILE-20260131.

Each line shows the time of the grant, for how long the lock was held and waited for, the fencing
token, the holder with its identity, the coordinator, and the end. `-` stands for what the logs do
not tell. Lines that are broken or of another kind are skipped, with a message.

Examples:
  leasehold history orders/42
  leasehold history scheduler --since 24h
  leasehold history orders/42 --since 2026-01-31T03:00:00Z --file a/audit.log --file b/audit.log
  ssh host cat /var/log/leasehold/audit.log | leasehold history orders/42 --file -";

/// Options of `history`.
#[derive(clap::Args, Debug)]
pub(crate) struct HistoryOptions {
    /// The lock's or the election's name
    pub(crate) name: String,

    /// Leave out what ended before: a time such as 2026-01-31T03:00:00Z, or how long ago, such as 24h
    #[arg(long, value_name = "TIME", value_parser = since)]
    pub(crate) since: Option<SystemTime>,

    /// Audit log to read, with its rotated files; `-` is standard input. May be given several times
    #[arg(
        long = "file",
        value_name = "FILE",
        default_value = "/var/log/leasehold/audit.log"
    )]
    pub(crate) files: Vec<PathBuf>,
}

/// Parses a time, or how long ago it was.
fn since(text: &str) -> Result<SystemTime, String> {
    let expected = "expected a time such as 2026-01-31T03:00:00Z, or how long ago, such as 24h";
    if let Ok(ago) = duration(text) {
        let time = SystemTime::now().checked_sub(ago);
        return time.ok_or_else(|| expected.to_owned());
    }
    parse_time(text).ok_or_else(|| expected.to_owned())
}

/// Parses a time of RFC 3339.
pub(super) fn parse_time(text: &str) -> Option<SystemTime> {
    let time: prost_types::Timestamp = text.parse().ok()?;
    let seconds = u64::try_from(time.seconds).ok()?;
    let nanos = u32::try_from(time.nanos).ok()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::new(seconds, nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_times_and_as_how_long_ago() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        assert_eq!(since("1970-01-02T00:00:05Z"), Ok(at(86_405)));
        assert_eq!(since("1970-01-02T01:00:05+01:00"), Ok(at(86_405)));
        let before = SystemTime::now();
        let hour_ago = since("1h").unwrap_or(SystemTime::UNIX_EPOCH);
        assert!(hour_ago + Duration::from_secs(3600) >= before);
        for text in ["", "yesterday", "5", "1970-13-01T00:00:00Z"] {
            assert!(since(text).is_err(), "{text}");
        }
    }
}
