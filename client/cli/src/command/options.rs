//! Options that `run` and `elect` share.

use std::{ffi::OsString, time::Duration};

use crate::duration::duration;

/// Lease under which a command runs, and the command. The leadership of an election is a lock too.
#[derive(clap::Args, Debug)]
pub(crate) struct LeaseOptions {
    /// Time for which the lock outlives the loss of contact, such as 10s or 2m [default: the coordinator's, 10s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) ttl: Option<Duration>,

    /// Time for which the lock stays closed if this process is killed or loses contact, so that its command is gone before the
    /// next holder starts
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "2s")]
    pub(crate) lock_delay: Duration,

    /// Time for which the lock outlives a broken connection, to be resumed over another one: at most the TTL
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "0s")]
    pub(crate) grace: Duration,

    /// Name of the holder, for others to see [default: this host and process]
    #[arg(long, value_name = "NAME")]
    pub(crate) client_name: Option<String>,

    /// The command and its arguments
    #[arg(last = true, required = true, num_args = 1.., value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}
