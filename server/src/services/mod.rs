//! The gRPC services: thin, they check fields, call the coordinator and put answers together.

pub mod admin;
pub mod election;
pub mod lock;
mod opening;
pub mod overview;
pub mod streams;
mod told;
