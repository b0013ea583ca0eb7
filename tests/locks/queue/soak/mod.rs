//! Soak tests, which `make test` leaves to `make soak`: fairness among clients that want the lock all the time.

mod fairness;
mod pollers;
