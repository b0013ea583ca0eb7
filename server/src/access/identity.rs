//! Identity of a caller, and the proof of it.

use std::{sync::Arc, time::SystemTime};

use super::{certificate::Shown, tokens::TokenHash};

/// Identity that a caller has shown.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    /// Its kind and name: `cert:NAME`, `token:NAME` or `jwt:SUBJECT`.
    pub(super) name: Arc<str>,
    /// The proof of it.
    pub(super) proof: Proof,
    /// Time at which the proof expires; `None` if it does not say.
    pub(super) expires: Option<SystemTime>,
}

/// Proof of an identity: as much as is needed to check later whether it still holds.
#[derive(Clone, Debug)]
pub(super) enum Proof {
    /// A certificate.
    Certificate(Arc<Shown>),
    /// A static token.
    Token(TokenHash),
    /// A signed token: the mark of the key that checked it.
    Jwt(TokenHash),
}
