//! The gRPC services: thin, they check fields, call the coordinator and put answers together.

pub mod admin;
pub mod election;
pub mod lock;
pub mod streams;
mod told;
