//! Soak tests, which `make test` leaves to `make soak`: fail-overs that take seconds each.

mod following;
mod replicated;
