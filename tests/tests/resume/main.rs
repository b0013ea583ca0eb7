//! Sessions that go on elsewhere: what a client held and waited for on one stream, it takes over on another, of the same or
//! of another coordinator, and whoever believes in the old one can do nothing to it any more. On a real Redis.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod attempts;
mod bad_input;
mod cut_off;
mod draining;
mod grace;
mod holds;
mod killed;
mod many;
mod places;
mod site;
