//! Parts that the harness of the torture run and its clients share: the history, and the workload's locks.
#![expect(clippy::expect_used, reason = "a run that can't be recorded is no run")]

pub mod history;
pub mod locks;
pub mod shown;
pub mod stalls;
pub mod worker;
