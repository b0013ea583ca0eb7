//! TLS of the coordinator's ports: its files, and their reload when they change.
//!
//! - `load`: reads and checks the files. Errors name the setting and the file.
//! - `reload`: [`Tls`], the settings in force, and the task that follows the files and the configuration.
//! - `expiry`: expiry of the certificates in force, as a metric, and as a warning in the log when it is near.
//! - `trust`: [`ClientTrust`], which decides whether a certificate that was valid at its handshake still is.
//! - `reason`: the reason of a failed handshake, in words.
//!
//! Each connection does its own handshake (`listener::Connection`), so that the accept loop never waits for one. The
//! coordinator does not resume TLS sessions: connections live long, and a resumed one would present a certificate that was
//! last checked at its first handshake.

mod expiry;
mod load;
mod reason;
mod reload;
mod trust;

pub use expiry::check_expiry;
pub(crate) use expiry::follow_expiry;
pub use load::check;
pub(crate) use reason::told;
pub use reload::Tls;
pub use trust::ClientTrust;
