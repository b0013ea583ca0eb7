//! Messages between a session's task, its handles and its guards.

use std::{sync::Arc, time::Duration};

use tokio::sync::oneshot;

use crate::{error::HoldFailure, lease::Lease, trace::TraceContext};

/// A lock that was granted, for the driver to make a guard of.
pub(crate) struct Granted {
    pub(crate) key: u64,
    pub(crate) lease: Arc<Lease>,
    /// Number of times that the actor holds it, this grant included.
    pub(crate) hold_count: u32,
}

/// A change of a hold.
pub(crate) enum Change {
    /// The value attached to it.
    Value(Vec<u8>),
    /// From exclusive to shared.
    Downgrade,
    /// To no more than this many permits.
    Reduce(u32),
}

/// Channel for the answer to a guard's request.
pub(crate) type HoldReply = oneshot::Sender<Result<(), HoldFailure>>;

/// Message that is sent without waiting, even while dropping: not more than one for each acquire and guard, and what
/// guards ask for.
pub(crate) enum Note {
    /// The caller waits for this acquire no longer.
    Cancel(u64),
    /// A guard gives its lock back or is dropped: the last that it says.
    Release {
        key: u64,
        trace: Option<TraceContext>,
        reply: Option<HoldReply>,
    },
    /// A guard changes something about its hold.
    Change {
        key: u64,
        change: Change,
        trace: Option<TraceContext>,
        reply: HoldReply,
    },
    /// The session is to be closed. The sender is dropped when it has ended.
    Close(oneshot::Sender<()>),
}

/// Description of an open session, as its coordinator gave it.
///
/// ```
/// # leasehold_tests::doc(async |client| {
/// let info = client.default_session().info().expect("there is a connection");
/// assert!(info.heartbeat_interval < info.ttl);
/// # Ok(()) });
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SessionInfo {
    /// The session's name in listings. Not secret. Every reconnect brings a new one.
    pub session_id: String,
    /// The coordinator's name in listings.
    pub coordinator: String,
    /// The TTL in force.
    pub ttl: Duration,
    /// Time between heartbeats of a session that holds or waits for something. An idle one sends fewer if the coordinator
    /// allows it.
    pub heartbeat_interval: Duration,
}
