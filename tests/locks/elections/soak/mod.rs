//! Soak tests, which `make test` leaves to `make soak`: the time from the death of a leader to the next one.

mod leader_killed;
