//! Property tests of the rules: locks and their queues, and the detector of deadlocks, on random histories.

mod deadlocks;
mod locks;
