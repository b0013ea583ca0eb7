//! Feeds of both stores: their contents, order and recipients, and their cost.

mod cost;
mod errors;
mod follow;
mod order;
mod outages;
mod world;
