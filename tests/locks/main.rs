//! Locks, queues and elections over several coordinators on one store: order, hand-off, deadlocks, resumes, watchers.

mod deadlocks;
mod elections;
mod family;
mod queue;
mod resume;
mod watching;

/// Longest time until anything happens that has to.
const LATE: std::time::Duration = leasehold_tests::raw::PROMPT;
