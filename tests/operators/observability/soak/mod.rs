//! Soak tests, which `make test` leaves to `make soak`: liveness through long pauses.

mod liveness;
