//! Soak tests, which `make test` leaves to `make soak`: thousands of answers at one moment.

mod many_answers;
