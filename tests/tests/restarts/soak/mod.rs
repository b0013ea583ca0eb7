//! Soak tests, which `make test` leaves to `make soak`: restarts of coordinators under load.

mod killed;
mod lone;
mod rolling;
