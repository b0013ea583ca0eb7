//! Resumes of holds and places, by any owner ids and tickets, from any streams and coordinators.

use crate::hostile::{Play, play};

/// Plays an input, most of whose steps are streams that resume something.
pub fn run(data: &[u8]) {
    play(data, Play::Resumes);
}
