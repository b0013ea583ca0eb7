//! gRPC services. They are thin: they check fields, call the coordinator and build answers.

pub mod admin;
pub(crate) mod call;
pub mod election;
mod ending;
pub mod listing;
pub mod lock;
pub(crate) mod names;
mod opening;
mod server_stream;
pub mod streams;

pub use leasehold_proto::v1::DESCRIPTORS;
