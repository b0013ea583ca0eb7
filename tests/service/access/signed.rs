//! Signed tokens: made here, with keys of every kind, and everything that can be wrong with one.

use std::{
    fs,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, PublicKeyData};
use serde_json::{Value, json};
use tonic::Code;

use super::site::{Site, ends, reason, table};

const RSA: &str = include_str!("rsa.pem");
pub(super) const RSA_PUBLIC: &str = include_str!("rsa.pub.pem");
/// The modulus of that key.
const RSA_N: &str = include_str!("rsa.n");
const FLAGS: [&str; 6] = [
    "--jwt-keys",
    "jwks.json",
    "--jwt-issuer",
    "https://issuer",
    "--jwt-audience",
    "locks",
];

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs()
}

fn good() -> Value {
    json!({"iss": "https://issuer", "aud": ["other", "locks"], "sub": "ci", "exp": now() + 60})
}

fn with(change: Value) -> Value {
    let mut claims = good();
    for (key, value) in change.as_object().unwrap() {
        match value {
            Value::Null => drop(claims.as_object_mut().unwrap().remove(key)),
            value => claims[key] = value.clone(),
        }
    }
    claims
}

fn sign(algorithm: Algorithm, kid: Option<&str>, key: &EncodingKey, claims: &Value) -> String {
    let mut header = Header::new(algorithm);
    header.kid = kid.map(str::to_owned);
    encode(&header, claims, key).unwrap()
}

/// Returns a token for `ci` that goes with [`RSA_PUBLIC`] and is good for this many seconds.
pub(super) fn good_for(seconds: u64) -> String {
    let claims = with(json!({"exp": now() + seconds}));
    sign(Algorithm::RS256, None, &keys().0.rsa, &claims)
}

/// Keys of all kinds: a site that knows the public ones, and the private ones.
struct Keys {
    rsa: EncodingKey,
    ec: EncodingKey,
    ed: EncodingKey,
}

fn keys() -> (Keys, Value) {
    let ec = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
    let ed = KeyPair::generate_for(&PKCS_ED25519).unwrap();
    let encoded = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    // 4, x, y.
    let point = ec.der_bytes();
    let set = json!({"keys": [
        {"kty": "RSA", "kid": "rsa", "use": "sig", "alg": "RS256", "n": RSA_N.trim(), "e": "AQAB"},
        {"kty": "EC", "kid": "ec", "crv": "P-256", "x": encoded(&point[1..33]), "y": encoded(&point[33..])},
        {"kty": "OKP", "kid": "ed", "crv": "Ed25519", "x": encoded(ed.der_bytes())},
        {"kty": "EC", "kid": "other", "crv": "secp256k1", "x": "AA", "y": "AA"},
    ]});
    let keys = Keys {
        rsa: EncodingKey::from_rsa_pem(RSA.as_bytes()).unwrap(),
        ec: EncodingKey::from_ec_pem(ec.serialize_pem().as_bytes()).unwrap(),
        ed: EncodingKey::from_ed_pem(ed.serialize_pem().as_bytes()).unwrap(),
    };
    (keys, set)
}

fn site(set: &Value, rules: &str) -> Site {
    site_with(set, rules, &[])
}

fn site_with(set: &Value, rules: &str, more: &[&str]) -> Site {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("jwks.json"), set.to_string()).unwrap();
    Site::start_in(folder, rules, &[&FLAGS, more].concat())
}

/// Returns a site that accepts signed tokens, and a function that signs one for `ci` with this lifetime.
pub(super) fn site_of_ci(
    rules: &str,
    flags: &[&str],
) -> (Site, impl Fn(Duration) -> String + use<>) {
    let (keys, set) = keys();
    let sign_for = move |lasts: Duration| {
        let claims = with(json!({"exp": now() + lasts.as_secs()}));
        sign(Algorithm::ES256, Some("ec"), &keys.ec, &claims)
    };
    (site_with(&set, rules, flags), sign_for)
}

async fn refused(site: &Site, token: &str, why: &str) -> String {
    let caller = site.caller(Some(token)).await;
    let status = caller.is_known().await.expect_err(why);
    assert_eq!(status.code(), Code::Unauthenticated, "{why}");
    assert!(!status.message().contains(token), "{why}");
    reason(&status)
}

#[tokio::test]
async fn keys_of_every_kind_let_in_and_nothing_else_does() {
    let (keys, set) = keys();
    let site = site(&set, "");
    for (algorithm, kid, key) in [
        (Algorithm::RS256, "rsa", &keys.rsa),
        (Algorithm::ES256, "ec", &keys.ec),
        (Algorithm::EdDSA, "ed", &keys.ed),
    ] {
        for kid in [Some(kid), None] {
            let token = sign(algorithm, kid, key, &good());
            let caller = site.caller(Some(&token)).await;
            caller
                .is_known()
                .await
                .unwrap_or_else(|status| panic!("{algorithm:?} {kid:?}: {status:?}"));
        }
    }
    let ec = |claims: &Value| sign(Algorithm::ES256, Some("ec"), &keys.ec, claims);
    for (why, claims) in [
        ("wrong issuer", json!({"iss": "https://other"})),
        ("no issuer", json!({"iss": null})),
        ("wrong audience", json!({"aud": "other"})),
        ("no audience", json!({"aud": null})),
        ("no expiry", json!({"exp": null})),
        ("an expiry that is no number", json!({"exp": "never"})),
        ("not yet", json!({"nbf": now() + 300})),
        ("not yet, in no number", json!({"nbf": "later"})),
        ("nobody", json!({"sub": null})),
        ("a name that is empty", json!({"sub": ""})),
        ("a name that is none", json!({"sub": "a\nb"})),
    ] {
        let refused = refused(&site, &ec(&with(claims)), why).await;
        assert_eq!(refused, "UNAUTHENTICATED", "{why}");
    }
    let over = ec(&with(json!({"exp": now() - 1})));
    assert_eq!(refused(&site, &over, "expired").await, "IDENTITY_EXPIRED");

    let good = good();
    let token = ec(&good);
    let (message, signature) = token.rsplit_once('.').unwrap();
    let claims = URL_SAFE_NO_PAD.encode(good.to_string());
    let none = URL_SAFE_NO_PAD.encode(r#"{"alg":"none","kid":"ec"}"#);
    let public = EncodingKey::from_secret(RSA_PUBLIC.as_bytes());
    let modulus = EncodingKey::from_secret(&URL_SAFE_NO_PAD.decode(RSA_N.trim()).unwrap());
    let stranger = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
    let stranger = EncodingKey::from_ec_pem(stranger.serialize_pem().as_bytes()).unwrap();
    let signed = |algorithm, kid, key| sign(algorithm, kid, key, &good);
    let root = URL_SAFE_NO_PAD.encode(with(json!({"sub": "root"})).to_string());
    let (header, _) = message.split_once('.').unwrap();
    use Algorithm::{ES256, HS256, RS512};
    for (why, token) in [
        ("none", format!("{none}.{claims}.")),
        ("none, signed", format!("{none}.{claims}.{signature}")),
        ("no signature", format!("{message}.")),
        ("truncated", token[..token.len() - 4].to_owned()),
        ("HMAC: public key", signed(HS256, Some("rsa"), &public)),
        ("HMAC: modulus", signed(HS256, Some("rsa"), &modulus)),
        ("HMAC: no key id", signed(HS256, None, &public)),
        ("not its algorithm", signed(RS512, Some("rsa"), &keys.rsa)),
        ("unknown key id", signed(ES256, Some("new"), &keys.ec)),
        ("another key's id", signed(ES256, Some("rsa"), &keys.ec)),
        ("a stranger's key", signed(ES256, Some("ec"), &stranger)),
        ("other claims", format!("{header}.{root}.{signature}")),
        ("rubbish", "a.b.c".to_owned()),
    ] {
        let refused = refused(&site, &token, why).await;
        assert_eq!(refused, "UNAUTHENTICATED", "{why}");
    }
}

#[tokio::test]
async fn a_session_ends_with_its_token_and_with_its_key() {
    let (keys, set) = keys();
    let rules = table("jwt:ci", "acquire", "locks", "");
    let site = site(&set, &rules);
    let ed = |claims: &Value| sign(Algorithm::EdDSA, Some("ed"), &keys.ed, claims);
    let short = ed(&with(json!({"exp": now() + 5})));
    let mut ending = site.caller(Some(&short)).await.session().await;
    ending.acquire("a").await;
    let long = ed(&good());
    let mut session = site.caller(Some(&long)).await.session().await;
    ends(&mut ending, "IDENTITY_EXPIRED").await;
    session.acquire("b").await;
    let mut without = set.clone();
    without["keys"].as_array_mut().unwrap().remove(2);
    site.replace("jwks.json", &without.to_string());
    ends(&mut session, "UNAUTHENTICATED").await;
    // Other keys' identities are as they were.
    let other = sign(Algorithm::ES256, Some("ec"), &keys.ec, &good());
    site.caller(Some(&other)).await.is_known().await.unwrap();
}

#[tokio::test]
async fn one_public_key_is_enough() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("key.pem"), RSA_PUBLIC).unwrap();
    let mut flags = FLAGS;
    flags[1] = "key.pem";
    let site = Site::start_in(folder, "", &flags);
    let (keys, _) = keys();
    let token = sign(Algorithm::RS256, Some("whichever"), &keys.rsa, &good());
    site.caller(Some(&token)).await.is_known().await.unwrap();
    let secret = EncodingKey::from_secret(RSA_PUBLIC.as_bytes());
    let forged = sign(Algorithm::HS256, None, &secret, &good());
    assert_eq!(refused(&site, &forged, "HMAC").await, "UNAUTHENTICATED");
}
