//! TLS of our own ports: what the certificate files say, and how they are taken over when they change.
//!
//! - `load`: the files, read and checked; what is wrong is told with setting and file.
//! - `reload`: [`Tls`], what is in force now, and the task that follows the files and the configuration.
//! - `expiry`: when what is in force expires, as a metric, and in the log when it is soon.
//! - `trust`: [`ClientTrust`], whether a certificate that was good at its handshake still is.
//! - `port`: the admin port's listening socket.
//! - `reason`: what a failed handshake is told as.
//!
//! The handshake itself is the connection's own doing (`listener::Connection`), so that the accept loop never waits for one.
//! There is no resumption of TLS sessions: connections live long, and one that is resumed would bring a certificate along that
//! nobody has looked at since.

mod expiry;
mod load;
mod port;
mod reason;
mod reload;
mod trust;

pub use expiry::check_expiry;
pub(crate) use expiry::{follow_expiry, over_at};
pub(crate) use load::HTTP2;
pub use load::{TlsError, check};
pub(crate) use port::TlsPort;
pub(crate) use reason::told;
pub use reload::Tls;
pub use trust::ClientTrust;
