//! Sequences of session messages, events of time, failures of the store and ends of streams.

use crate::hostile::{Play, play};

/// Plays an input, most of whose steps are requests.
pub fn run(data: &[u8]) {
    play(data, Play::Requests);
}
