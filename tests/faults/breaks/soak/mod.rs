//! Soak tests, which `make test` leaves to `make soak`: outages of seconds, clocks that jump, and a latency over many rounds.

mod clock;
mod kill;
mod load;
mod redis_blackhole;
mod redis_replies;
mod redis_restart;
