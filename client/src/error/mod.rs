//! Errors of the client, one type for each kind of request.

mod acquire;
mod cause;
mod connect;
mod credentials;
mod failure;
mod hold;
mod rounded;

pub use acquire::AcquireError;
pub(crate) use cause::{Cause, Judged, Mismatch, closed_unanswered};
pub use connect::ConnectError;
pub use credentials::CredentialsError;
pub use failure::{Failure, FieldViolation};
pub(crate) use hold::HoldFailure;
pub use hold::{HoldError, WithLockError};
pub(crate) use rounded::Rounded;
