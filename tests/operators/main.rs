//! A coordinator as its operators see it: settings, messages, metrics, traces, certificates, secrets, the doctor, and outages of Redis.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod doctor;
mod drills;
mod observability;
mod secrets;
mod settings;
mod tls;
mod traces;
