//! Soak tests, which `make test` leaves to `make soak`: crowds of a thousand sessions.

mod crowds;
