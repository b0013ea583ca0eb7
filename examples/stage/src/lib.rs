//! The machinery behind the stage of the examples' demonstrations: child processes that are killed, stopped and told to
//! end, and the servers that a demonstration starts for itself. Nothing of it belongs into an application.

mod process;
mod services;

pub use process::{Process, this_program};
pub use services::{Service, connect, coordinator, redis};
