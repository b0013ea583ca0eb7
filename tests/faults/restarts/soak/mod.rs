//! Soak tests, which `make test` leaves to `make soak`: restarts of coordinators under load.

mod killed;
mod leader;
mod load;
mod lone;
mod rolling;
