//! The wire API of Leasehold, generated from the protobuf files in `proto/leasehold/v1`, and the reasons that its failures give.
//!
//! Use the `leasehold-client` crate unless you want to speak the protocol yourself. Feature `client` generates the
//! client stubs, feature `server` the server traits.

pub mod codec;
mod reason;

pub use reason::{Reason, Retry};

/// Version 1 of the API: package `leasehold.v1`.
pub mod v1 {
    #![allow(
        missing_docs,
        unreachable_pub,
        clippy::all,
        clippy::allow_attributes,
        clippy::allow_attributes_without_reason,
        reason = "generated code; the protobuf files are linted by buf"
    )]
    tonic::include_proto!("leasehold.v1");

    /// The encoded `FileDescriptorSet` of the package, as gRPC reflection serves it.
    pub const DESCRIPTORS: &[u8] =
        include_bytes!(concat!(env!("OUT_DIR"), "/leasehold_descriptors.bin"));
}
