//! Credentials of callers, each noted as a secret.

use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use leasehold_server::access::tokens::new_token;
use leasehold_tests::certificates::Issued;
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PublicKeyData};
use serde_json::{Value, json};

use super::site::Secrets;

pub(super) const ISSUER: &str = "https://issuer.example";
pub(super) const AUDIENCE: &str = "locks";

/// Place of the secret number in a P-256 key as PKCS #8 (RFC 5915).
const NUMBER: std::ops::Range<usize> = 36..68;
/// Bytes before the secret number.
const BEFORE: [u8; 2] = [4, 32];

/// Notes a private key in the forms that it may leak in: whole, its number alone, the lines of its file.
fn note_key(secrets: &Secrets, pem: &str) -> Vec<u8> {
    let lines = pem.lines().filter(|line| !line.starts_with("-----"));
    let lines: Vec<&str> = lines.collect();
    let der = STANDARD.decode(lines.concat()).unwrap();
    assert_eq!(der[34..36], BEFORE, "it is a P-256 key");
    secrets.add("private key", der.as_slice());
    secrets.add("private key's number", &der[NUMBER]);
    // The third is of the public key alone.
    for line in &lines[..2] {
        secrets.add("line of a private key", line.as_bytes());
    }
    der[NUMBER].to_vec()
}

/// Notes the key of a certificate.
pub(super) fn note_key_of(secrets: &Secrets, issued: &Issued) {
    note_key(secrets, &fs::read_to_string(&issued.key).unwrap());
}

/// Issuer of signed tokens.
pub(super) struct Signer {
    key: EncodingKey,
    number: Vec<u8>,
    point: Vec<u8>,
    signed: AtomicU64,
    secrets: Secrets,
}

impl Signer {
    pub(super) fn new(secrets: &Secrets) -> Self {
        let pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
        let pem = pair.serialize_pem();
        Self {
            key: EncodingKey::from_ec_pem(pem.as_bytes()).unwrap(),
            number: note_key(secrets, &pem),
            point: pair.der_bytes().to_vec(),
            signed: AtomicU64::new(0),
            secrets: secrets.clone(),
        }
    }

    fn jwk(&self) -> Value {
        // 4, x, y.
        let [x, y] =
            [&self.point[1..33], &self.point[33..]].map(|half| URL_SAFE_NO_PAD.encode(half));
        json!({"kty": "EC", "kid": "ec", "crv": "P-256", "x": x, "y": y})
    }

    /// Returns the public key with which coordinators check its tokens.
    pub(super) fn public(&self) -> String {
        json!({"keys": [self.jwk()]}).to_string()
    }

    /// Returns the private key, which coordinators must never get.
    pub(super) fn private(&self) -> String {
        let mut jwk = self.jwk();
        jwk["d"] = URL_SAFE_NO_PAD.encode(&self.number).into();
        json!({"keys": [jwk]}).to_string()
    }

    /// Returns a fresh token for this subject, which expires in this many seconds.
    pub(super) fn sign(&self, kind: &'static str, subject: &str, seconds: i64) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let now = i64::try_from(now.as_secs()).unwrap();
        let claims = json!({
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": subject,
            "exp": now + seconds,
            "jti": self.signed.fetch_add(1, Ordering::Relaxed),
        });
        let mut header = Header::new(Algorithm::ES256);
        header.kid = Some("ec".to_owned());
        let token = encode(&header, &claims, &self.key).unwrap();
        note_signed(&self.secrets, kind, &token);
        token
    }

    /// Does the same with another token's signature.
    pub(super) fn forge(&self) -> String {
        let [one, other] = ["one", "another"].map(|who| self.sign("JWT that is refused", who, 60));
        let (_, signature) = one.rsplit_once('.').unwrap();
        let (claims, _) = other.rsplit_once('.').unwrap();
        let forged = format!("{claims}.{signature}");
        note_signed(&self.secrets, "JWT that is refused", &forged);
        forged
    }
}

/// Notes it whole, and its signature: what it says of its holder is worth nothing without.
fn note_signed(secrets: &Secrets, kind: &'static str, token: &str) {
    secrets.add(kind, token);
    let (_, signature) = token.rsplit_once('.').unwrap();
    secrets.add("signature of a JWT", signature);
    secrets.add(
        "signature of a JWT",
        URL_SAFE_NO_PAD.decode(signature).unwrap(),
    );
}

/// A token that is in force once its line is in a coordinator's file.
pub(super) struct Listed {
    pub(super) token: String,
    pub(super) line: String,
}

impl Listed {
    pub(super) fn new(secrets: &Secrets, name: &str) -> Self {
        let made = new_token(name).unwrap();
        let (token, line) = made.trim_end().split_once('\n').unwrap();
        secrets.add("bearer token in force", token);
        // Without its mark, as a program might show it that knows the mark.
        secrets.add("bearer token in force", token.strip_prefix("lh_").unwrap());
        let (_, hash) = line.split_once("sha256:").unwrap();
        secrets.add("hash of a token", hash);
        Self {
            token: token.to_owned(),
            line: line.to_owned(),
        }
    }
}

/// Writes a file that others read meanwhile.
pub(super) fn put(path: &Path, text: &str) {
    let fresh = path.with_extension("new");
    fs::write(&fresh, text).unwrap();
    fs::rename(fresh, path).unwrap();
}
