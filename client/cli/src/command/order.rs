//! Order for a supervised command, and how the command ended.

use leasehold_client::{Session, TraceContext};

use super::options::LeaseOptions;
use crate::exit::Exit;

/// The command to run, and how to run it.
pub(crate) struct Order<'a> {
    /// The command and its lease, as the user asked for them.
    pub(crate) lease: &'a LeaseOptions,
    /// The election that it leads.
    pub(crate) election: Option<&'a str>,
    /// The trace of the command, if it is not that of this process.
    pub(crate) trace: Option<&'a TraceContext>,
    /// The session that holds the locks.
    pub(crate) session: &'a Session,
    /// Whether to report nothing about that session.
    pub(crate) quiet: bool,
}

/// End of a command.
pub(crate) enum Ended {
    /// By itself, or it could not be started.
    ByItself(Exit),
    /// By itself, after it was sent a signal because an operator had asked for the release.
    OnRequest {
        exit: Exit,
        /// The last signal passed on to it that asked it to end.
        asked_to_end: Option<i32>,
    },
    /// It was stopped, because a lock was lost or about to be; or it was not started, because a lock was lost already.
    Stopped {
        /// The last signal passed on to it that asked it to end.
        asked_to_end: Option<i32>,
    },
}
