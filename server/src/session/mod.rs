//! Lease streams.
//!
//! - [`task`]: one task owns one session: what it holds and waits for, and its lease.
//! - `hearing`: what a client says, and how its side of the stream ends.
//! - `requests`: what a client may ask on its stream; `acquires`, `grants`: how an acquire goes on.
//! - `turns`, `line`: whose turn it is among its acquires, while there is no room for more on the way to the store.
//! - `actors`, `counts`: what each flow of a client holds, and how many times.
//! - `renewal`: keeping the holds alive, and telling what could not be.
//! - [`resume`]: what it takes over from another stream before it opens.
//! - `revoked`: what it may not hold or wait for any more.
//! - `grace`: how it goes on without a stream, for its client to resume it.
//! - `ending`: how it ends, and what becomes of what it held.
//! - [`outbox`]: answers on their way to a client that may not read.
//! - [`wire`]: the words in which a client speaks; the session is the same for all of them.
//! - `signals`, `alarm`: what happens to it from outside, and time.
//! - `second_look`: deadlines that somebody else may have kept.
//! - [`traces`]: its requests, as traces and the log tell of them.
//! - [`sessions`]: the sessions of this coordinator, for operators and limits.

mod line;
pub mod outbox;
pub mod resume;
pub mod sessions;
pub mod task;
pub mod traces;
pub mod wire;

mod acquires;
mod actors;
mod alarm;
mod counts;
mod ending;
mod grace;
mod grants;
mod hearing;
mod renewal;
mod requests;
mod revoked;
mod second_look;
mod signals;
mod turns;

/// Most releases and changes of holds that a session may have in flight.
pub const MAX_IN_FLIGHT: usize = 1024;
/// Most heartbeats that wait for a renewal before they are answered; of more, the oldest are not.
pub const MAX_PENDING_ACKS: usize = 16;
