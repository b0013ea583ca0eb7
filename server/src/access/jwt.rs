//! Signed tokens (JWT): their issuers' keys, and the claims that they must have.
//!
//! The key that checks a token, never the token, decides the algorithm. Because this module has only public keys, it accepts
//! neither `none` nor an HMAC over a public key.

use std::{
    collections::HashSet,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use jsonwebtoken::{
    Algorithm, DecodingKey, Validation, decode, decode_header,
    errors::ErrorKind,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, PublicKeyUse},
};
use serde_json::{Map, Value, json};

use super::{name::check_name, remembered::Remembered, tokens::TokenHash};
use crate::config::unreadable;

/// Most that the issuer's clock may be ahead before a token counts as not valid yet.
const LEEWAY: Duration = Duration::from_secs(30);

const RSA: [Algorithm; 6] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
];

/// Checker of signed tokens.
#[derive(Clone)]
pub(super) struct Jwt {
    keys: Vec<Key>,
    issuer: String,
    audience: String,
    claim: String,
    /// Tokens that these keys verified: another key set begins with none.
    remembered: Arc<Remembered<Subject>>,
}

#[derive(Clone)]
struct Key {
    /// Its id; the key of a PEM file has none.
    id: Option<String>,
    /// The algorithms that it may sign with.
    algorithms: Vec<Algorithm>,
    key: DecodingKey,
    /// Hash of the key, and of the claims that are required.
    mark: TokenHash,
}

/// Contents of a valid token.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    /// The name of its identity.
    pub(super) name: String,
    /// Time of its expiry.
    pub(super) expires: SystemTime,
    /// The key that checked it.
    pub(super) mark: TokenHash,
}

/// Reason why a token is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bad {
    /// It has expired.
    Expired,
    /// Another reason, for the log.
    Because(&'static str),
}

impl Jwt {
    /// Reads the keys: a JWKS file, or a public key (PEM).
    ///
    /// # Errors
    ///
    /// If the file can't be read, or holds no usable public key.
    pub(super) fn load(
        path: &Path,
        issuer: &str,
        audience: &str,
        claim: &str,
    ) -> Result<Self, String> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| unreadable("jwt-keys", path, None, error))?;
        Self::parse(&text, issuer, audience, claim)
            .map_err(|(line, message)| unreadable("jwt-keys", path, line, message))
    }

    /// Reads the keys from the text of a file. An error has the line, if it is in one.
    pub(super) fn parse(
        text: &str,
        issuer: &str,
        audience: &str,
        claim: &str,
    ) -> Result<Self, (Option<usize>, String)> {
        let mut jwt = Self {
            keys: Vec::new(),
            issuer: issuer.to_owned(),
            audience: audience.to_owned(),
            claim: claim.to_owned(),
            remembered: Arc::default(),
        };
        jwt.keys = if text.trim_start().starts_with('{') {
            jwt.key_set(text)?
        } else {
            vec![jwt.pem(text)?]
        };
        Ok(jwt)
    }

    /// Returns the subject of a token at this time, if it was verified recently. Checks no signature.
    ///
    /// # Errors
    ///
    /// If it has expired since.
    pub(super) fn remembered(&self, token: &str, now: SystemTime) -> Result<Option<Subject>, Bad> {
        match self.remembered.get(token) {
            Some(subject) if subject.expires <= now => Err(Bad::Expired),
            subject => Ok(subject),
        }
    }

    /// Verifies a token, remembers it, and returns its subject at this time.
    ///
    /// # Errors
    ///
    /// If it is not valid.
    pub(super) fn check(&self, token: &str, now: SystemTime) -> Result<Subject, Bad> {
        let header = decode_header(token).map_err(|_| Bad::Because("its header is none"))?;
        let named = |key: &&Key| match (&key.id, &header.kid) {
            (Some(id), Some(kid)) => id == kid,
            _ => true,
        };
        let mut why = Bad::Because("no key has its key id");
        for key in self.keys.iter().filter(named) {
            if !key.algorithms.contains(&header.alg) {
                why = Bad::Because("its algorithm is not one of its key's");
                continue;
            }
            match decode::<Map<String, Value>>(token, &key.key, &self.validation(key)) {
                Ok(verified) => {
                    let subject = self.subject(&verified.claims, key, now)?;
                    self.remembered.put(token, subject.clone());
                    return Ok(subject);
                }
                Err(error) => why = Bad::Because(told(error.kind())),
            }
        }
        Err(why)
    }

    /// Returns whether the key and the claims that a token was checked with are still in force.
    #[must_use]
    pub(super) fn still_checks(&self, mark: &TokenHash) -> bool {
        self.keys.iter().any(|key| key.mark == *mark)
    }

    fn validation(&self, key: &Key) -> Validation {
        let mut validation = Validation::default();
        validation.algorithms.clone_from(&key.algorithms);
        validation.required_spec_claims = HashSet::from(["exp", "iss", "aud"].map(str::to_owned));
        validation.set_issuer(&[&self.issuer]);
        validation.set_audience(&[&self.audience]);
        // This function checks the times itself, and refuses what is no number.
        validation.validate_exp = false;
        validation
    }

    fn subject(
        &self,
        claims: &Map<String, Value>,
        key: &Key,
        now: SystemTime,
    ) -> Result<Subject, Bad> {
        let expires =
            time(claims.get("exp")).ok_or(Bad::Because("it says no time when it is over"))?;
        if expires <= now {
            return Err(Bad::Expired);
        }
        if let Some(not_before) = claims.get("nbf") {
            let not_before = time(Some(not_before)).ok_or(Bad::Because("its nbf is no time"))?;
            if not_before > now + LEEWAY {
                return Err(Bad::Because("it is not valid yet"));
            }
        }
        let name = claims.get(&self.claim).and_then(Value::as_str);
        let name = name.filter(|name| check_name(name).is_ok());
        let name = name.ok_or(Bad::Because("its identity claim is no name"))?;
        Ok(Subject {
            name: name.to_owned(),
            expires,
            mark: key.mark,
        })
    }

    fn key_set(&self, text: &str) -> Result<Vec<Key>, (Option<usize>, String)> {
        let set: Value = serde_json::from_str(text).map_err(|error| {
            let message = "expected JSON: an object with a list `keys`".to_owned();
            (Some(error.line()), message)
        })?;
        let listed = set.get("keys").and_then(Value::as_array);
        let listed = listed.ok_or_else(|| {
            let message = "expected a list `keys`, as a JWKS file has it".to_owned();
            (None, message)
        })?;
        let mut keys = Vec::with_capacity(listed.len());
        for (jwk, number) in listed.iter().zip(1..) {
            let wrong = |what: &str| (None, format!("key {number}: {what}"));
            if jwk.get("kty").and_then(Value::as_str) == Some("oct") {
                return Err(wrong(
                    "expected public keys alone; found a shared secret (oct)",
                ));
            }
            if jwk.get("d").is_some() {
                return Err(wrong("expected public keys alone; found a private one"));
            }
            // The set may also have keys of other uses, curves and algorithms.
            if let Some(key) = self.key(jwk) {
                keys.push(key);
            }
        }
        if keys.is_empty() {
            let message =
                "expected at least one public key that signs: RSA, EC (P-256, P-384) or Ed25519";
            return Err((None, message.to_owned()));
        }
        Ok(keys)
    }

    fn key(&self, jwk: &Value) -> Option<Key> {
        let jwk: Jwk = serde_json::from_value(jwk.clone()).ok()?;
        let common = &jwk.common;
        if !matches!(common.public_key_use, None | Some(PublicKeyUse::Signature)) {
            return None;
        }
        let (possible, material) = match &jwk.algorithm {
            AlgorithmParameters::RSA(rsa) => (&RSA[..], [&*rsa.n, &*rsa.e]),
            AlgorithmParameters::EllipticCurve(ec) => match ec.curve {
                EllipticCurve::P256 => (&[Algorithm::ES256][..], [&*ec.x, &*ec.y]),
                EllipticCurve::P384 => (&[Algorithm::ES384][..], [&*ec.x, &*ec.y]),
                _ => return None,
            },
            AlgorithmParameters::OctetKeyPair(pair) => match pair.curve {
                EllipticCurve::Ed25519 => (&[Algorithm::EdDSA][..], [&*pair.x, ""]),
                _ => return None,
            },
            AlgorithmParameters::OctetKey(_) => return None,
        };
        let named = common.key_algorithm.map(algorithm);
        let algorithms = possible.iter().copied();
        let algorithms: Vec<_> = algorithms
            .filter(|possible| named.is_none_or(|named| named == Some(*possible)))
            .collect();
        if algorithms.is_empty() {
            return None;
        }
        Some(Key {
            id: common.key_id.clone(),
            algorithms,
            key: DecodingKey::from_jwk(&jwk).ok()?,
            mark: self.mark(material),
        })
    }

    fn pem(&self, text: &str) -> Result<Key, (Option<usize>, String)> {
        let wrong = || {
            let message = "expected a JWKS file (JSON), or one public key (PEM): RSA, EC (P-256, P-384) or Ed25519";
            (None, message.to_owned())
        };
        let text = text.trim();
        let is_public = [
            "-----BEGIN PUBLIC KEY-----",
            "-----BEGIN RSA PUBLIC KEY-----",
        ]
        .iter()
        .any(|begins| text.starts_with(begins));
        if !is_public || text.matches("-----BEGIN ").count() != 1 {
            return Err(wrong());
        }
        let bytes = text.as_bytes();
        let (algorithms, key) = DecodingKey::from_rsa_pem(bytes)
            .map(|key| (RSA.to_vec(), key))
            .or_else(|_| {
                DecodingKey::from_ec_pem(bytes)
                    .map(|key| (vec![Algorithm::ES256, Algorithm::ES384], key))
            })
            .or_else(|_| DecodingKey::from_ed_pem(bytes).map(|key| (vec![Algorithm::EdDSA], key)))
            .map_err(|_| wrong())?;
        Ok(Key {
            id: None,
            algorithms,
            key,
            mark: self.mark([text, ""]),
        })
    }

    fn mark(&self, material: [&str; 2]) -> TokenHash {
        let marked = json!([material, self.issuer, self.audience, self.claim]);
        TokenHash::of(&marked.to_string())
    }
}

/// Reads a time of a token: seconds since 1970.
fn time(claim: Option<&Value>) -> Option<SystemTime> {
    let seconds = claim?.as_f64()?;
    let since = Duration::try_from_secs_f64(seconds).ok()?;
    UNIX_EPOCH.checked_add(since)
}

/// Returns the algorithm that a key set names.
fn algorithm(named: KeyAlgorithm) -> Option<Algorithm> {
    named.to_string().parse().ok()
}

fn told(error: &ErrorKind) -> &'static str {
    match error {
        ErrorKind::InvalidSignature => "its signature is another key's",
        ErrorKind::InvalidIssuer => "it is of another issuer",
        ErrorKind::InvalidAudience => "it is for another audience",
        ErrorKind::MissingRequiredClaim(_) => "it lacks exp, iss or aud",
        _ => "it can't be read",
    }
}
