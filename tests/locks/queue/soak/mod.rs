//! Soak tests, which `make test` leaves to `make soak`: fairness, and the time that a dead coordinator costs its queue.

mod fairness;
mod killed;
mod pollers;
mod readers;
