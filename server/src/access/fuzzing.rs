//! Verifier of bearer tokens without a connection, for the fuzz target `jwt`. No part of the API.

use std::time::SystemTime;

use super::{Caller, jwt::Jwt, policy::Policy, tokens::Tokens};
use crate::access::rules::{Granted, Rule, Rules};

/// Policy with a token file, a set of keys and rules.
pub struct Verifier(Policy);

impl Verifier {
    /// Reads the texts of a token file and of a key file.
    ///
    /// # Errors
    ///
    /// Fails as the start of a coordinator does.
    pub fn new(
        tokens: &str,
        keys: &str,
        (issuer, audience, claim): (&str, &str, &str),
        rules: &[Rule],
    ) -> Result<Self, String> {
        let tokens = Tokens::parse(tokens).map_err(|(_, message)| message)?;
        let jwt = Jwt::parse(keys, issuer, audience, claim).map_err(|(_, message)| message)?;
        Ok(Self(Policy::of_tokens(Rules::new(rules), tokens, jwt)))
    }

    /// Returns the name of the identity that a token shows, and what it may do.
    ///
    /// # Errors
    ///
    /// Fails with the refusal's message.
    pub fn identify(&self, token: &str, now: SystemTime) -> Result<(String, Granted), String> {
        let wrong = |refusal: crate::status::Refusal| tonic::Status::from(refusal).to_string();
        let identity = self.0.bearer(token, now, || Ok(())).map_err(wrong)?;
        let name = identity.name.to_string();
        let granted = self.0.granted(&Caller::known(identity), now);
        Ok((name, granted.map_err(wrong)?))
    }
}
