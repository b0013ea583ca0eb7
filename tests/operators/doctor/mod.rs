//! `leasehold doctor`, and `leasehold-server check-config --connect`, against real coordinators and Redis servers: nothing is found
//! on a healthy deployment, and each fault is found.

mod access;
mod certificates;
mod check_config;
mod faults;
mod healthy;
pub(crate) mod site;
