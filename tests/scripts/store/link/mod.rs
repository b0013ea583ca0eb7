//! A link against a real Redis server: replies, outages and refusals.

mod commands;
mod outages;
mod refusals;
mod tls;
