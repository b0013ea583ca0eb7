//! What can go wrong, one type for each thing that one asks for.

mod acquire;
mod connect;
mod credentials;
mod failure;
mod hold;

pub use acquire::AcquireError;
pub use connect::ConnectError;
pub use credentials::CredentialsError;
pub use failure::{Failure, FieldViolation};
pub(crate) use hold::HoldFailure;
pub use hold::{HoldError, WithLockError};
