//! gRPC services. They are thin: they check fields, call the coordinator and build answers.

pub mod admin;
pub(crate) mod call;
pub mod election;
mod ending;
pub mod listing;
pub mod lock;
pub(crate) mod names;
mod opening;
mod request_key;
mod server_stream;
pub mod status;
pub mod streams;

pub use leasehold_proto::v1::DESCRIPTORS;
use prost_reflect::{DescriptorError, DescriptorPool};

/// Returns the descriptors of the services that are served as JSON too, and of the details of errors.
///
/// # Errors
///
/// If a set is not valid.
pub fn descriptors() -> Result<DescriptorPool, DescriptorError> {
    let mut pool = DescriptorPool::global();
    for set in [
        DESCRIPTORS,
        tonic_health::pb::FILE_DESCRIPTOR_SET,
        tonic_types::pb::FILE_DESCRIPTOR_SET,
    ] {
        pool.decode_file_descriptor_set(set)?;
    }
    Ok(pool)
}
