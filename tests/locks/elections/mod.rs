//! Elections over several coordinators on one Redis: the leader, the length of its term, and the observers' view, whatever
//! process dies. Candidates use the wire directly, or are processes; promises of the client are tested with it.

mod holders;
mod losses;
mod observing;
mod silent_redis;
