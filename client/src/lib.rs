//! x
mod admin;
mod client;
mod clock;
mod error;
mod guard;
mod lease;
mod lock;
mod session;
mod settings;

pub use admin::Admin;
pub use client::{Client, ClientBuilder};
pub use error::{AcquireError, ConnectError, Failure, FieldViolation, HoldError, WithLockError};
pub use guard::{LockGuard, LockWatch};
pub use lease::{FencingToken, LostReason};
pub use lock::LockRequest;
pub use session::{Session, SessionBuilder, SessionInfo};

/// The wire API: messages and generated stubs, for what this crate has no words for.
pub mod proto {
    pub use leasehold_proto::v1;
}
