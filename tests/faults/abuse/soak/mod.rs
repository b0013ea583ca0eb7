//! Soak tests, which `make test` leaves to `make soak`: abuse beside a hundred clients that behave.

mod deadlocked;
mod neighbours;
mod together;
