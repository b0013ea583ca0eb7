//! Redis scripts against the rules of the memory store, and the links and feeds that carry them.

mod differential;
mod store;
