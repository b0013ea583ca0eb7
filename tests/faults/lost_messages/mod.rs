//! Loss of messages between coordinators and Redis, one at a time, on the way of a lock from client to client: calls and their replies,
//! wake-ups, and the subscription that they come by. Grants still come, to every client once, and no client holds without knowing.
//! What follows from each loss for queues and sessions is simulated; here it comes by the real link and the real feed.

mod forced;
mod handed_on;
mod resumed;
mod site;

use std::time::Duration;

use leasehold_tests::redis_proxy::Loss;

/// The coordinators' time-out for Redis. A shorter one would save time, but not be kept by a machine under load.
const STORE_TIMEOUT: Duration = Duration::from_millis(750);
/// A call whose reply comes so late has been given up, while its connection has not.
const REPLY_LATE: Loss = Loss::ReplyAfter(STORE_TIMEOUT.saturating_add(Duration::from_millis(300)));
const LOSSES: [Loss; 5] = [
    Loss::ReplyCut,
    Loss::ReplyHeld,
    REPLY_LATE,
    Loss::RequestCut,
    Loss::RequestLate,
];
/// Longest time for anything.
const PROMPT: Duration = Duration::from_secs(20);
/// Of sessions and unary holds: what is only ended by this counts as leaked.
const TTL: Duration = Duration::from_secs(60);
