//! Options that `run` and `elect` share.

use std::{ffi::OsString, time::Duration};

use rustix::process::Signal;

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

    /// Name of the holder, for others to see [default: its program, host and process id]
    #[arg(long, value_name = "NAME")]
    pub(crate) client_name: Option<String>,

    /// Signal for the command when an operator asks for the lock's release (`leasehold release --ask`). Without it, the request
    /// is only reported
    #[arg(long, value_name = "SIGNAL", value_enum, ignore_case = true)]
    pub(crate) on_request: Option<OnRequest>,

    /// The command and its arguments
    #[arg(last = true, required = true, num_args = 1.., value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// Signal for the command when an operator asks for the lock's release: one of those that are passed on to it.
#[derive(clap::ValueEnum, Clone, Copy, Debug)]
#[value(rename_all = "UPPER")]
pub(crate) enum OnRequest {
    Int,
    Term,
    Hup,
    Quit,
    Usr1,
    Usr2,
}

impl From<OnRequest> for Signal {
    fn from(on_request: OnRequest) -> Self {
        match on_request {
            OnRequest::Int => Self::INT,
            OnRequest::Term => Self::TERM,
            OnRequest::Hup => Self::HUP,
            OnRequest::Quit => Self::QUIT,
            OnRequest::Usr1 => Self::USR1,
            OnRequest::Usr2 => Self::USR2,
        }
    }
}
