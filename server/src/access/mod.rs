//! Authentication and authorization.
//!
//! Callers authenticate with a certificate, a token whose hash a file lists, or a signed token; rules of the configuration
//! give permissions to identities. If none of this is configured, every caller may do everything.
//!
//! - [`Caller`]: the caller of a request. [`AccessLayer`] puts it into the request's extensions when it lets the request pass.
//! - [`Access`]: gives a caller's [`Rights`], which a stream follows for as long as it lives.
//! - [`rules`]: the rules, pure.
//! - `policy`: the rules, tokens and keys in force. One task, `keeper`, keeps them up to date; all others follow it.
//! - [`tokens`], `jwt`, `certificate`: the proofs of an identity; `identity`: the identity itself.

mod caller;
mod certificate;
pub(crate) mod fuzzing;
mod identity;
mod jwt;
mod keeper;
mod layer;
mod name;
mod policy;
mod remembered;
mod rights;
pub mod rules;
pub mod tokens;

use std::sync::Arc;

use tokio::sync::watch;
use tonic::Extensions;

pub use self::{caller::Caller, layer::AccessLayer, rights::Rights};
pub(crate) use self::{
    certificate::Shown,
    policy::check,
    rights::{check_granted, denied},
};
use self::{policy::Policy, rules::Granted};
use crate::{audit::Audit, status::Refusal};

/// Handle on the policy in force. Clones follow the same policy.
#[derive(Clone, Debug)]
pub struct Access {
    policies: watch::Receiver<Arc<Policy>>,
    audit: Audit,
}

impl Default for Access {
    /// Returns one with a policy that permits everything to everybody.
    fn default() -> Self {
        let (_, policies) = watch::channel(Arc::default());
        let audit = Audit::default();
        Self { policies, audit }
    }
}

impl Access {
    /// Returns the rights of a request's caller, by the request's extensions.
    ///
    /// # Errors
    ///
    /// If identities are required, and the caller has none or it is no longer accepted.
    pub fn rights(&self, extensions: &Extensions) -> Result<Rights, Refusal> {
        let caller = Caller::of(extensions);
        Rights::of(caller, self.policies.clone(), self.audit.clone())
    }

    /// Returns what a caller of another coordinator, or of an earlier time, may do by the rules in force: see [`Caller::key`].
    #[must_use]
    pub fn granted_to(&self, key: &str) -> Granted {
        self.policies.borrow().granted_to(key)
    }

    /// Returns whether every caller may do everything: no source of identities is configured.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.policies.borrow().is_open()
    }

    /// Has the audit log tell of what is denied.
    #[must_use]
    pub fn told(self, audit: Audit) -> Self {
        Self { audit, ..self }
    }
}
