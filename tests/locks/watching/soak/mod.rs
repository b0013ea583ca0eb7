//! Soak tests, which `make test` leaves to `make soak`: a thousand observers and a thousand watchers.

mod crowd;
