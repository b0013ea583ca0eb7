//! Actions that the machine of a session asks its driver for.

use super::messages::{Granted, SessionInfo};
use crate::{
    clock::Moment,
    error::{AcquireError, ConnectError, HoldFailure},
    proto::v1,
};

/// Action for the driver. `A` is the reply channel of an acquire, `H` that of a request about a hold. Each stream has a
/// number.
pub(super) enum Output<A, H> {
    /// Send this on the stream.
    Send(u64, v1::SessionRequest),
    /// Answer an acquire: one grant for each lock, in the order of the names.
    Acquired(A, Result<Vec<Granted>, AcquireError>),
    HoldDone(H, Result<(), HoldFailure>),
    /// The session is open on this stream, and from now on only on it: leave any other stream once its queued requests have
    /// been sent.
    Opened(u64, SessionInfo),
    /// The coordinator is going away at this moment.
    Draining(Moment),
    /// Give up the stream. Cut it, unless it did not open in time: then keep it until another one has opened, because its end
    /// would release the locks that it may still resume. The machine has forgotten it already.
    HangUp(u64, Option<ConnectError>),
    /// Leave the stream that was to be the next one, once its queued requests have been sent and answered; the end of the
    /// session waits for that for a while. The machine has forgotten it already.
    Leave(u64),
    /// End the driver: there is nothing left to do.
    Ended,
}
