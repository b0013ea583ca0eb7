//! Links to Redis, feeds of both stores, and the votes of a quorum.

mod feed;
mod link;
mod server;
mod votes;
