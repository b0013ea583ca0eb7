//! TLS with real coordinators: handshakes, refusals, reloads, and leases that keep their promises.

mod admin;
mod endings;
mod expiry;
mod files;
mod handshakes;
mod listening;
mod site;
mod swaps;
