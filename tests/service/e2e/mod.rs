//! End-to-end tests: real coordinators, real Redis, real clients.

mod bad_input;
mod bad_start;
mod bad_stream;
mod bench_command;
mod campaign;
mod comparison;
mod incomplete_calls;
mod late_renew;
mod limits;
mod limits_of_resumes;
mod names;
mod probe;
mod reflection;
mod run_command;
mod scenarios;
mod silence;
mod soak;
mod subscriptions;
mod wake_ups;
