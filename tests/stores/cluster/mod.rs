//! Locks in a Redis Cluster of six real nodes: everything that works on one server works here, through fail-overs, nodes that
//! hang, and slots that move.

mod feeds;
mod half_moved;
mod joining;
mod messages;
mod moving_on;
mod site;
mod soak;
