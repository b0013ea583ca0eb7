//! Locks, queues and elections over several coordinators on one store: order, hand-off, deadlocks, resumes, watchers.

mod deadlocks;
mod elections;
mod family;
mod queue;
mod resume;
mod watching;
