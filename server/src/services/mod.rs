//! gRPC services. They are thin: they check fields, call the coordinator and build answers.

pub mod admin;
pub mod election;
pub mod lock;
mod opening;
pub mod overview;
mod server_stream;
pub mod streams;

pub use leasehold_proto::v1::DESCRIPTORS;
