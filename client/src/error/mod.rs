//! Errors: one type for each thing that a program asks for.

mod acquire;
mod cause;
mod connect;
mod credentials;
mod failure;
mod hold;
mod kind;
mod rounded;

pub use acquire::AcquireError;
pub(crate) use cause::{Cause, Judged, Mismatch, closed_unanswered, is_closed_unanswered};
pub use connect::ConnectError;
pub use credentials::CredentialsError;
pub use failure::{Failure, FieldViolation};
pub(crate) use hold::HoldFailure;
pub use hold::{HoldError, WithLockError};
pub use kind::FailureKind;
pub(crate) use rounded::Rounded;
