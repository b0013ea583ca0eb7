//! TLS with real coordinators: handshakes, refusals, reloads, and leases that keep their promises.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod admin;
mod endings;
mod expiry;
mod files;
mod handshakes;
mod listening;
mod site;
mod swaps;
