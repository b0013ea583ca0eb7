//! TLS, for real: who is let in, what is told of the others, and that a lease over TLS is worth what one without is.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod files;
mod handshakes;
mod site;
mod swaps;
