//! Authentication and authorization.
//!
//! Callers show who they are with a certificate, a token whose hash a file lists, or a signed token; rules of the configuration
//! give permissions to identities. While nothing of this is configured, everybody may do everything.
//!
//! - [`Caller`]: who makes a request; it is in the request's extensions once [`AccessLayer`] has let it pass.
//! - [`Access`]: asks what a caller may do: its [`Rights`], which a stream follows for as long as it lives.
//! - [`rules`]: the rules, pure.
//! - `policy`: what is in force: rules, tokens, keys. One task, `keeper`, keeps it true; everybody else follows it.
//! - [`tokens`], `jwt`, `certificate`: what shows an identity; `identity`: what is known of one.

mod caller;
mod certificate;
mod identity;
mod jwt;
mod keeper;
mod layer;
mod policy;
mod remembered;
mod rights;
pub mod rules;
pub mod tokens;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio::sync::watch;
use tonic::Extensions;

use self::policy::Policy;
pub use self::{
    caller::Caller,
    layer::{AccessLayer, Accessible},
    rights::Rights,
};
pub(crate) use self::{
    certificate::Shown,
    layer::HEALTH,
    policy::check,
    rights::{check_granted, denied},
};
use crate::status::Refusal;

/// A handle on what is in force. Clones follow the same.
#[derive(Clone, Debug)]
pub struct Access {
    policies: watch::Receiver<Arc<Policy>>,
}

/// What is wrong with a file of identities. It tells where, and shows nothing of what is in there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AccessError {
    /// It can't be read.
    #[error("failed to read {} ({setting}): {source}", path.display())]
    Unreadable {
        /// The setting that names it.
        setting: &'static str,
        /// The file as it was named.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is not what it should be.
    #[error("failed to read {} ({setting}){}: {message}", path.display(), at(*line))]
    Malformed {
        /// The setting that names it.
        setting: &'static str,
        /// The file as it was named.
        path: PathBuf,
        /// Counted from 1, where one is to blame.
        line: Option<usize>,
        /// What was expected.
        message: String,
    },
}

fn at(line: Option<usize>) -> String {
    line.map_or_else(String::new, |line| format!(", line {line}"))
}

impl AccessError {
    fn unreadable(setting: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Unreadable {
            setting,
            path: path.to_owned(),
            source,
        }
    }
}

impl Access {
    /// What the caller of a request may do, by its extensions.
    ///
    /// # Errors
    ///
    /// When it is nobody, or nobody any more, where identities are asked for.
    pub fn rights(&self, extensions: &Extensions) -> Result<Rights, Refusal> {
        Rights::of(Caller::of(extensions), self.policies.clone())
    }
}
