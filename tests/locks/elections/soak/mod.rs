//! Soak tests, which `make test` leaves to `make soak`: a hundred elections at once, and latencies over many rounds.

mod crowd;
mod cut_off;
mod leader_killed;
