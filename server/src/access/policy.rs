//! Policy in force: the admitted identities, and their permissions.

use std::{fmt, path::PathBuf, sync::Arc, time::SystemTime};

use tonic::codegen::http::{HeaderMap, header::AUTHORIZATION};

use super::{
    Caller,
    identity::{Identity, Proof},
    jwt::{Bad, Jwt},
    rules::{Granted, Rules},
    tokens::Tokens,
};
use crate::{
    config::Config,
    limits::Limits,
    listener::ConnectionHandle,
    status::{Reason, Refusal},
    tls::ClientTrust,
};

/// Settings that are fixed at startup.
#[derive(Clone, Debug)]
pub(super) struct Given {
    /// The authorities of clients' certificates, with TLS.
    pub(super) trust: Option<ClientTrust>,
    /// Whether tokens are accepted from other machines: the network is encrypted, or need not be.
    pub(super) tokens_from_afar: bool,
}

/// Policy at some time.
#[derive(Clone, Default)]
pub(super) struct Policy {
    /// Whether identities are required: the configuration names a source of them.
    asks: bool,
    rules: Rules,
    tokens: Option<Tokens>,
    jwt: Option<Jwt>,
    /// The authorities of clients' certificates.
    trust: Option<ClientTrust>,
    /// The number of this policy, different from all earlier ones; never 0.
    number: u64,
    tokens_from_afar: bool,
}

impl Policy {
    /// Loads the policy of a configuration and of the files that it names.
    pub(super) fn load(config: &Config, given: &Given, number: u64) -> Result<Self, String> {
        let trust = given.trust.clone();
        Ok(Self {
            asks: config.asks_who_calls(),
            rules: Rules::new(&config.permissions),
            tokens: tokens(config)?,
            jwt: jwt(config)?,
            trust: trust.filter(|_| config.tls_client_ca.is_some()),
            number,
            tokens_from_afar: given.tokens_from_afar,
        })
    }

    /// Returns a policy that admits these tokens alone.
    pub(super) fn of_tokens(rules: Rules, tokens: Tokens, jwt: Jwt) -> Self {
        Self {
            asks: true,
            rules,
            tokens: Some(tokens),
            jwt: Some(jwt),
            number: 1,
            ..Self::default()
        }
    }

    /// Returns the files that a configuration names for identities.
    pub(super) fn files(config: &Config) -> Vec<PathBuf> {
        let files = [&config.token_file, &config.jwt_keys];
        files.into_iter().flatten().cloned().collect()
    }

    /// Returns whether no identity is required.
    pub(super) const fn is_open(&self) -> bool {
        !self.asks
    }

    /// Returns the same policy under another number, so that every caller is checked again.
    pub(super) fn renumbered(&self, number: u64) -> Self {
        Self {
            number,
            ..self.clone()
        }
    }

    /// Identifies the caller of a request. After too many failures of its address, which
    /// `limits` counts, no signature is checked.
    pub(super) fn identify(
        &self,
        headers: &HeaderMap,
        connection: &ConnectionHandle,
        now: SystemTime,
        limits: &Limits,
    ) -> Result<Caller, Refusal> {
        if self.is_open() {
            return Ok(Caller::anonymous(connection.peer_addr()));
        }
        let takes_tokens = self.tokens.is_some() || self.jwt.is_some();
        let shown = headers.get_all(AUTHORIZATION).iter();
        // Without a source of tokens, the coordinator ignores them.
        let mut shown = shown.filter(|_| takes_tokens);
        let identity = match (shown.next(), shown.next()) {
            (None, _) => self.certified(connection, now)?,
            (Some(value), None) => {
                let is_near = connection.peer_addr().ip().to_canonical().is_loopback();
                if !is_near && !self.tokens_from_afar {
                    return Err(refused(IN_THE_CLEAR));
                }
                let value = value.to_str().ok();
                let (scheme, token) = value
                    .and_then(|value| value.split_once(' '))
                    .ok_or_else(|| refused(UNKNOWN))?;
                if !scheme.eq_ignore_ascii_case("bearer") {
                    return Err(refused(UNKNOWN));
                }
                let from = connection.peer_addr().ip();
                self.bearer(token.trim(), now, || limits.allow_attempt(from))?
            }
            (Some(_), Some(_)) => return Err(refused(UNKNOWN)),
        };
        Ok(Caller::known(identity))
    }

    fn certified(
        &self,
        connection: &ConnectionHandle,
        now: SystemTime,
    ) -> Result<Identity, Refusal> {
        let trust = self.trust.as_ref().ok_or_else(|| refused(NOBODY))?;
        let shown = connection.certificate().ok_or_else(|| refused(NOBODY))?;
        if shown.expires <= now {
            return Err(expired());
        }
        if !shown.is_good(trust, self.number) {
            return Err(refused(GONE));
        }
        Ok(Identity {
            name: Arc::clone(&shown.name),
            expires: Some(shown.expires),
            proof: Proof::Certificate(Arc::clone(shown)),
        })
    }

    pub(super) fn bearer(
        &self,
        token: &str,
        now: SystemTime,
        allow_attempt: impl FnOnce() -> Result<(), Refusal>,
    ) -> Result<Identity, Refusal> {
        if let Some(entry) = self.tokens.as_ref().and_then(|tokens| tokens.find(token)) {
            if entry.expires.is_some_and(|expires| expires <= now) {
                return Err(expired());
            }
            return Ok(Identity {
                name: format!("token:{}", entry.name).into(),
                proof: Proof::Token(entry.hash),
                expires: entry.expires,
            });
        }
        let jwt = self.jwt.as_ref().ok_or_else(|| refused(UNKNOWN))?;
        let bad = |bad| match bad {
            Bad::Expired => expired(),
            Bad::Because(why) => {
                tracing::debug!(why, "a signed token was refused");
                refused(UNKNOWN)
            }
        };
        let remembered = jwt.remembered(token, now).map_err(bad)?;
        let subject = match remembered {
            Some(subject) => subject,
            None => {
                allow_attempt()?;
                jwt.check(token, now).map_err(bad)?
            }
        };
        Ok(Identity {
            name: format!("jwt:{}", subject.name).into(),
            proof: Proof::Jwt(subject.mark),
            expires: Some(subject.expires),
        })
    }

    /// Returns what a caller may do now.
    ///
    /// # Errors
    ///
    /// If it has no identity, or its identity is no longer accepted.
    pub(super) fn granted(&self, caller: &Caller, now: SystemTime) -> Result<Granted, Refusal> {
        if self.is_open() {
            return Ok(Granted::Everything);
        }
        let identity = caller.shown().ok_or_else(|| refused(NOBODY))?;
        let expires = self.standing(identity, now).ok_or_else(|| refused(GONE))?;
        if expires.is_some_and(|expires| expires <= now) {
            return Err(expired());
        }
        Ok(self.rules.of(&identity.name))
    }

    /// Returns what the caller with this key may do, if its identity is still accepted.
    pub(super) fn granted_to(&self, key: &str) -> Granted {
        match self.is_open() {
            true => Granted::Everything,
            false => self.rules.of(key),
        }
    }

    /// Returns when a caller must be checked again even if nothing has changed.
    pub(super) fn expires(&self, caller: &Caller, now: SystemTime) -> Option<SystemTime> {
        let identity = caller.shown().filter(|_| !self.is_open())?;
        self.standing(identity, now)?
    }

    /// Returns the expiry of an identity, if it has one; `None` if the identity is no longer accepted.
    fn standing(&self, identity: &Identity, now: SystemTime) -> Option<Option<SystemTime>> {
        match &identity.proof {
            Proof::Certificate(shown) => {
                // An expired certificate is reported as expired, not as untrusted.
                let is_good = |trust| shown.expires <= now || shown.is_good(trust, self.number);
                let is_good = self.trust.as_ref().is_some_and(is_good);
                is_good.then_some(identity.expires)
            }
            Proof::Token(hash) => {
                let name = identity.name.strip_prefix("token:").unwrap_or_default();
                // The file may have set another expiry since.
                Some(self.tokens.as_ref()?.listed(name, hash)?.expires)
            }
            Proof::Jwt(mark) => {
                let checks = self.jwt.as_ref()?.still_checks(mark);
                checks.then_some(identity.expires)
            }
        }
    }
}

fn tokens(config: &Config) -> Result<Option<Tokens>, String> {
    config.token_file.as_deref().map(Tokens::load).transpose()
}

fn jwt(config: &Config) -> Result<Option<Jwt>, String> {
    let Some(path) = &config.jwt_keys else {
        return Ok(None);
    };
    let jwt = Jwt::load(
        path,
        config.jwt_issuer.as_deref().unwrap_or_default(),
        config.jwt_audience.as_deref().unwrap_or_default(),
        &config.jwt_identity_claim,
    );
    jwt.map(Some)
}

/// Returns the errors in the files that a configuration names for identities.
pub(crate) fn check(config: &Config) -> Vec<String> {
    let wrong = [tokens(config).err(), jwt(config).err()];
    wrong.into_iter().flatten().collect()
}

const NOBODY: &str = "this coordinator asks who calls; show an identity: a client certificate, or a bearer token in the metadata \
    `authorization`";
const UNKNOWN: &str = "the identity that was shown was not accepted; the metadata `authorization` takes `Bearer` and a token that \
    is valid here";
const IN_THE_CLEAR: &str = "the bearer token came over a network unencrypted and is refused: others may have read it; connect with \
    TLS, and with another token";
const GONE: &str = "the identity that was shown is not accepted any more; show another one";

fn refused(why: &str) -> Refusal {
    Refusal::new(Reason::Unauthenticated, why)
}

fn expired() -> Refusal {
    let why = "the identity that was shown has expired; show a newer one";
    Refusal::new(Reason::IdentityExpired, why)
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy")
            .field("rules", &self.rules)
            .finish_non_exhaustive()
    }
}
