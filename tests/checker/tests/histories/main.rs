//! Histories with a planted violation of each kind, all of which are found, and clean ones, in which nothing is.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod clean;
mod counts;
mod drawing;
mod ends;
mod exclusion;
mod history;
mod leftovers;
mod order;
mod reading;
mod registers;
mod rights;
mod time;
mod tokens;
mod watchers;
