//! Transport of calls and sessions: connections, encrypted or not, with credentials.

mod channel;
mod connector;
mod credentials;
mod files;
mod probe;
mod stream;
mod tls;
mod token;
mod verdict;

pub use channel::Channel;
pub(crate) use channel::Target;
pub(crate) use credentials::{CredentialSettings, Credentials};
pub(crate) use token::TokenSource;
