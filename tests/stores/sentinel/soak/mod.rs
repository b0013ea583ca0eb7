//! Soak tests, which `make test` leaves to `make soak`: fail-overs, some of them under load.

mod clock;
mod contended;
mod differing;
mod following;
mod killed;
mod load;
mod replicated;
