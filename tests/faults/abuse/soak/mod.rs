//! Soak tests, which `make test` leaves to `make soak`: abuse beside a hundred clients that behave, and beside a session on the same connection.

mod cancelled_calls;
mod deadlocked;
mod neighbours;
mod together;
