//! TLS, for real: who is let in, what is told of the others, and that a lease over TLS is worth what one without is.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod admin;
mod endings;
mod expiry;
mod files;
mod handshakes;
mod leases;
mod listening;
mod site;
mod swaps;
