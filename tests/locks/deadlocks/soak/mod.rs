//! Soak tests, which `make test` leaves to `make soak`: crowds of a thousand sessions, and the time until a deadlock ends.

mod closing;
mod crowds;
