//! `leasehold doctor`, and `leasehold-server check-config --connect`, against real coordinators and Redis servers: nothing is found
//! on a healthy deployment, and each fault is found.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod access;
mod certificates;
mod check_config;
mod faults;
mod healthy;
pub(crate) mod site;
