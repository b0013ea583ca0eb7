//! Soak test, which `make test` leaves to `make soak`: a latency over many rounds.

mod kill;
