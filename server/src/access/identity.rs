//! Identity of a caller, and the proof of it.

use std::{sync::Arc, time::SystemTime};

use super::{certificate::Shown, jwt::KeyMark, tokens::TokenHash};

/// Most bytes of an identity's name, without its kind.
const MAX_NAME: usize = 256;

/// Somebody who has shown who it is.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    /// Its kind and name: `cert:NAME`, `token:NAME` or `jwt:SUBJECT`.
    pub(super) name: Arc<str>,
    /// What shows it.
    pub(super) proof: Proof,
    /// When that is over; `None` if nothing says so.
    pub(super) expires: Option<SystemTime>,
}

/// What shows an identity: as much as it takes to see, later, whether it still does.
#[derive(Clone, Debug)]
pub(super) enum Proof {
    /// A certificate.
    Certificate(Arc<Shown>),
    /// A static token.
    Token(TokenHash),
    /// A signed token: what it was checked with.
    Jwt(KeyMark),
}

/// Refuses what can't be the name of an identity; says what was expected.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    if name.is_empty() || name.len() > MAX_NAME || name.chars().any(char::is_control) {
        return Err(format!(
            "expected a name of 1 to {MAX_NAME} bytes without control characters"
        ));
    }
    Ok(())
}
