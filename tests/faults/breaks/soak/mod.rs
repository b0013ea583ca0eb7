//! Soak tests, which `make test` leaves to `make soak`: clocks that jump, and a latency over many rounds.

mod clock;
mod kill;
