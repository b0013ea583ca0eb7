//! Soak tests, which `make test` leaves to `make soak`: five masters of which two are always in trouble, under load.

mod referee;
mod storm;
mod trouble;
