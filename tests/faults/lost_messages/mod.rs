//! Loss of messages between coordinators and Redis, one at a time and at every point of a contended history: wake-ups, the
//! subscription that they come by, script calls and their replies. Grants still come, in order and to every client once, and no
//! client holds without knowing.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod clients;
mod forced;
mod history;
mod referee;
mod replies;
mod resumed;
mod runs;
mod site;
mod trouble;
mod wake_ups;

use std::time::Duration;

use leasehold_tests::redis_proxy::Loss;

/// The coordinators' time-out for Redis. A shorter one would save time, but not be kept by a machine under load.
const STORE_TIMEOUT: Duration = Duration::from_millis(750);
/// A call whose reply comes so late has been given up, while its connection has not.
const REPLY_LATE: Loss = Loss::ReplyAfter(STORE_TIMEOUT.saturating_add(Duration::from_millis(300)));
/// Interval at which coordinators refresh their waiters, which makes up for lost messages.
const REFRESH: Duration = Duration::from_secs(1);
/// A coordinator whose refreshes have not come for so long may be passed over.
const DEAD_AFTER: Duration = Duration::from_secs(2);
/// Longest time for anything. What is later than it should be shows in the order: a claim that ended passes its client over.
const PROMPT: Duration = Duration::from_secs(20);
/// Of sessions and unary holds: what is only ended by this counts as leaked.
const TTL: Duration = Duration::from_secs(60);
