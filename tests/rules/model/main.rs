//! Models: the real rules of the locks, and the real machine for contended names, explored exhaustively within small bounds.
//!
//! Each model drives the rules with a few clients, coordinators and steps of time, in every order. Every state that can be
//! reached is checked, and the number of states is printed. Beside each model run variants with a known flaw in what the
//! driver sends, such as a release that compares and deletes in two steps: the checker must find each of them.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod common;
mod explore;
mod handoff;
mod quorum;
mod resume;
mod rules;
